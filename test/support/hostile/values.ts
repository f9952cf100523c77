/**
 * Rows, computed values and output columns.
 */
import { casts } from '../../../schemas/cast.ts'
import {
  cycle,
  path,
  column,
  longColumn,
  reference,
  times,
  MAX_COLUMNS,
  MAX_ROWS,
  type Element
} from './part.ts'

/** Rows of `values`. */
export const rows: Readonly<Record<string, { max: number, make: Element }>> = {
  'one column': { max: MAX_ROWS, make: i => `{"a":"x${i}"}` },
  'no column': { max: MAX_ROWS, make: () => '{}' },
  'two shapes in turns': { max: MAX_ROWS, make: i => i % 2 === 0 ? '{"a":"x"}' : '{"b":1}' },
  '200 shapes': { max: MAX_ROWS, make: i => `{"a":"x","c${i % 200}":1}` },
  'a shape each': { max: MAX_ROWS, make: i => `{"a":"x","c${i}":1}` },
  'a subset each': {
    max: MAX_ROWS,
    make: i => `{${times(14, k => (i >> k) % 2 === 1 ? `"c${k}":1` : '').filter(Boolean).join()}}`
  },
  'a reference each': { max: MAX_ROWS, make: i => `{"a":${reference(i)}}` },
  'one reference': { max: MAX_ROWS, make: () => '{"a":"$p.0.a"}' },
  'references in JSON': { max: MAX_ROWS, make: i => `{"j":{"k":["$p.${i}.a",{"l":"$p.${i}"}]}}` },
  $first: { max: MAX_ROWS, make: i => `{"a":{"$first":["$p.${i % 100}.a","$q.0.a"]}}` },
  modifiers: { max: MAX_ROWS, make: i => `{"b":{"$inc":${i}}}` },
  'exact numbers': { max: MAX_ROWS, make: i => `{"n":${i}.10}` },
  'escaped strings': { max: MAX_ROWS, make: () => '{"a":"\\u00e9\\n\\"$$p.0.a"}' },
  'nested JSON': { max: MAX_ROWS, make: i => `{"j":${'['.repeat(20)}${i}${']'.repeat(20)}}` },
  'composites that do not fit': { max: MAX_ROWS, make: i => `{"a":{"k":${i}}}` },
  'no objects': { max: MAX_ROWS, make: String },
  'unknown references': { max: MAX_ROWS, make: i => `{"a":"$u${i}.0.a"}` },
  'names that are too long': { max: MAX_ROWS, make: i => `{"${'n'.repeat(64)}${i}":1}` },
  'names of an integer': { max: MAX_ROWS, make: i => `{"${i % 1600}":1}` }
}

/** Rows by key: each has its own. */
export const keyedRows: Readonly<Record<string, Element>> = {
  'one column': i => `"a":"x${i}"`,
  'a shape each': i => `"c${i % MAX_COLUMNS}":1`,
  '200 shapes': i => `"c${i % 200}":1`,
  $inc: i => `"b":{"$inc":${i}}`,
  '$inc of a reference': i => `"b":{"$inc":"$p.${i}.b"}`,
  'every modifier': i => `"b":{"$inc":${i}},"j":{"$merge":{"k":${i}}},"ts":{"$now":true}`,
  'modifiers in turns': i => i % 2 === 0 ? '"b":{"$inc":1}' : '"b":{"$mul":2}',
  $merge: i => `"j":{"$merge":{"k${i}":"$p.${i}.a"}}`,
  $append: i => `"j":{"$append":[${i},"$p.0.a"]}`,
  $first: i => `"a":{"$first":["$p.${i % 100}.a"]}`,
  'unknown modifiers': i => `"a":{"$unknown${i}":1}`
}

/** Computed values, each of its own column. */
export const modifiers: Readonly<Record<string, Element>> = {
  $inc: i => `{"$inc":${i}}`,
  '$inc of a reference': i => `{"$inc":"$p.${i}.b"}`,
  '$inc of $first': i => `{"$inc":{"$first":["$p.${i % 100}.b","$q.0.b"]}}`,
  $dec: i => `{"$dec":${i}}`,
  $mul: i => `{"$mul":${i}.5}`,
  $now: () => '{"$now":true}',
  $default: () => '{"$default":true}',
  $col: i => `{"$col":"${path(i, 20)}"}`,
  $merge: i => `{"$merge":{"k":${i}}}`,
  '$merge of references': i => `{"$merge":{"k":["$p.${i}.a","$p.0.c${i}"]}}`,
  $append: i => `{"$append":[${i}]}`,
  $remove: i => `{"$remove":"k${i}"}`,
  $first: i => `{"$first":["$p.${i % 100}.a","$q.0.a"]}`,
  $value: i => `{"$value":{"$inc":[${i}]}}`,
  '$value of references': i => `{"$value":[${times(10, k => reference(i + k)).join()}]}`,
  'a reference': reference,
  'a whole row': i => `"$p.${i}"`,
  'a list': i => `"$p.*.c${i}"`,
  'JSON with a reference': i => `{"k":{"l":${reference(i)}}}`,
  'an unknown modifier': i => `{"$unknown${i}":1}`,
  'a modifier of a wrong type': () => '{"$inc":"x"}'
}

export const conflictOnly: Readonly<Record<string, Element>> = {
  $excluded: i => `{"$excluded":"${path(i, 20)}"}`
}

const words = Object.keys(casts)

/** Output columns. */
export const outputs: Readonly<Record<string, Element>> = {
  names: i => `"${column(i)}"`,
  'long names': i => `"${longColumn(i)}"`,
  'quoted names': i => `"${'\\"'.repeat(30)}${i}"`,
  'one name': () => '"a"',
  stars: () => '"*"',
  aliases: i => `{"column":"a","as":"${column(i)}"}`,
  'long aliases': i => `{"column":"a","as":"${longColumn(i)}"}`,
  'aliases of a path': i => `{"column":"${path(i, 99)}","as":"${column(i)}"}`,
  casts: i => `{"column":"a","cast":"${cycle(words, i)}","as":"${column(i)}"}`,
  'unknown casts': i => `{"column":"a","cast":"integer${i}"}`,
  'unknown members': i => `{"column":"a","colum${i}":1}`
}
export const aggregates: Readonly<Record<string, Element>> = {
  counts: i => `{"fn":"count","as":"${column(i)}"}`,
  sums: i => `{"fn":"sum","column":"b","as":"${column(i)}"}`,
  'distinct counts': i =>
    `{"fn":"count","column":"${path(i, 99)}","distinct":true,"cast":"int","as":"${column(i)}"}`
}
