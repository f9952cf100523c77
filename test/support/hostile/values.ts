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
  type Element
} from './part.ts'

/** Rows of `values`. */
export const rows: Readonly<Record<string, Element>> = {
  '200 shapes': i => `{"a":"x","c${i % 200}":1}`,
  'a subset each': i =>
    `{${times(14, k => (i >> k) % 2 === 1 ? `"c${k}":1` : '').filter(Boolean).join()}}`,
  'a reference each': i => `{"a":${reference(i)}}`,
  'references in JSON': i => `{"j":{"k":["$p.${i}.a",{"l":"$p.${i}"}]}}`,
  $first: i => `{"a":{"$first":["$p.${i % 100}.a","$q.0.a"]}}`,
  'nested JSON': i => `{"j":${'['.repeat(20)}${i}${']'.repeat(20)}}`
}

/** Rows by key: each has its own. */
export const keyedRows: Readonly<Record<string, Element>> = {
  '200 shapes': i => `"c${i % 200}":1`,
  'every modifier': i => `"b":{"$inc":${i}},"j":{"$merge":{"k":${i}}},"ts":{"$now":true}`,
  $merge: i => `"j":{"$merge":{"k${i}":"$p.${i}.a"}}`,
  $append: i => `"j":{"$append":[${i},"$p.0.a"]}`,
  $first: i => `"a":{"$first":["$p.${i % 100}.a"]}`
}

/** Computed values, each of its own column. */
export const modifiers: Readonly<Record<string, Element>> = {
  numbers: i => `{"${cycle(['$inc', '$dec', '$mul'], i)}":${i}}`,
  'no operand': i => `{"${cycle(['$now', '$default'], i)}":true}`,
  $col: i => `{"$col":"${path(i, 20)}"}`,
  $merge: i => `{"$merge":{"k":${i}}}`,
  '$merge of references': i => `{"$merge":{"k":["$p.${i}.a","$p.0.c${i}"]}}`,
  $append: i => `{"$append":[${i}]}`,
  $remove: i => `{"$remove":"k${i}"}`,
  $first: i => `{"$first":["$p.${i % 100}.a","$q.0.a"]}`,
  $value: i => `{"$value":{"$inc":[${i}]}}`,
  'a reference': reference,
  'JSON with a reference': i => `{"k":{"l":${reference(i)}}}`,
  'an unknown modifier': i => `{"$unknown${i}":1}`
}

export const conflictOnly: Readonly<Record<string, Element>> = {
  $excluded: i => `{"$excluded":"${path(i, 20)}"}`
}

const words = Object.keys(casts)

export const outputs: Readonly<Record<string, Element>> = {
  names: i => `"${column(i)}"`,
  'long names': i => `"${longColumn(i)}"`,
  'aliases of a path': i => `{"column":"${path(i, 99)}","as":"${column(i)}"}`,
  casts: i => `{"column":"a","cast":"${cycle(words, i)}","as":"${column(i)}"}`,
  'unknown casts': i => `{"column":"a","cast":"integer${i}"}`
}
export const aggregates: Readonly<Record<string, Element>> = {
  counts: i => `{"fn":"count","as":"${column(i)}"}`,
  sums: i => `{"fn":"sum","column":"b","as":"${column(i)}"}`,
  'distinct counts': i =>
    `{"fn":"count","column":"${path(i, 99)}","distinct":true,"cast":"int","as":"${column(i)}"}`
}
