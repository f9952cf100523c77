/**
 * Parts of single members: order, groups, nested reads, joined rows, keys.
 */
import { maxColumns, maxConditions } from '../../../schemas/operation.ts'
import type { Frame } from './draft.ts'
import {
  column,
  filtering,
  path,
  reference,
  times,
  MAX_ROWS,
  UNLIMITED,
  type Element,
  type Part
} from './part.ts'

type Described = Omit<Part, 'name'>

const part = (frames: readonly Frame[], max: number, make: Described['make']): Described =>
  ({ frames, max, make })

/** A member of which each element is repeated. */
function repeat (
  frames: readonly Frame[],
  max: number,
  members: Readonly<Record<string, Element>>
): Described {
  return part(frames, max, n =>
    Object.fromEntries(Object.entries(members).map(([name, element]) => [name, times(n, element)])))
}

/** A member with one text, in which an element is repeated. */
function wrap (
  frames: readonly Frame[],
  max: number,
  [member, element, write]: readonly [string, Element, (elements: string) => string]
): Described {
  return { frames, max, make: n => ({ [member]: [write(times(n, element).join())] }) }
}

const condition: Element = i => `{"a":{"eq":${reference(i)}}}`
const alias: Element = i => `{"column":"a","as":"${column(i)}"}`
const quoted: Element = i => `"${column(i)}"`
const onId: Element = i => `"${column(i)}":"id"`
const read: Element = i => `"w${i}":{"table":"u","on":{"t_id":"id"}}`

const ordering: readonly Frame[] = ['select', 'nested', 'call']
const grouping: readonly Frame[] = ['select', 'insert_from', 'update_from']

const described: Readonly<Record<string, Described>> = {
  'after of references': repeat(['select'], 100, {
    order: i => `{"${column(i)}":"asc"}`, after: reference
  }),
  'order of paths': repeat(ordering, maxColumns, {
    order: i => `{"${path(i, 99)}":{"direction":"desc","nulls":"last"}}`
  }),
  'rows of a page': repeat(['select', 'call'], 1, {
    limit: () => '10', offset: () => '2147483647'
  }),
  'group_by of names': part(grouping, maxColumns, n => ({
    columns: ['{"fn":"count","as":"n"}'], group_by: times(n, quoted)
  })),
  'having of aggregates': repeat(['count'], maxConditions, {
    columns: i => `{"fn":"sum","column":"${path(i, 20)}","as":"${column(i)}"}`,
    having: i => `{"${column(i)}":{"gt":${i}}}`
  }),
  'distinct columns': part(['select'], maxColumns, n => ({
    distinct: ['true'], columns: times(n, quoted)
  })),
  'reads of with': repeat(['nested'], 100, { with: read }),
  'on of with': wrap(
    ['nested'], UNLIMITED, ['with', onId, list => `"w":{"table":"u","one":true,"on":{${list}}}`]
  ),
  'on of exists': wrap(
    filtering, UNLIMITED, ['where', onId, list => `{"exists":{"table":"u","on":{${list}}}}`]
  ),
  'on of from': repeat(['update_from', 'delete_from'], UNLIMITED, {
    'from.on': i => `"${column(i)}":"${path(i, 10)}"`
  }),
  'conditions of from': repeat(['insert_from', 'update_from', 'delete_from'], maxConditions, {
    'from.where': condition
  }),
  'columns of from, read by set': repeat(['update_from'], maxColumns, {
    'from.columns': alias, set: i => `"${column(i)}":{"$from":"${column(i)}"}`
  }),
  'columns of insert from': repeat(['insert_from'], maxColumns, {
    columns: i => `"${column(i)}":{"$col":"${path(i, 20)}"}`
  }),
  args: repeat(['call'], UNLIMITED, { args: i => `"${column(i)}":${i}` }),
  'columns of on_conflict': repeat(['upsert'], maxColumns, { 'on_conflict.columns': quoted }),
  'conditions of on_conflict': repeat(['upsert'], maxConditions, {
    'on_conflict.where': i => `{"a":{"eq":{"$excluded":"${path(i, 20)}"}}}`
  }),
  'repeated parts of on_conflict with rows of 50 shapes': part(['upsert'], 33, n => ({
    values: times(MAX_ROWS / 2, i => `{"id":${i},"c${i % 50}":1}`),
    'on_conflict.set': times(n, i => `"${column(i)}":{"$merge":{"k":${reference(i)}}}`)
  })),
  'columns of key': part(['bulk_update'], maxColumns, n => ({
    key: times(n, i => `"k${i}"`),
    values: [`{"id":1,"a":"x",${times(n, i => `"k${i}":${i}`).join()}}`]
  })),
  'keys that are references': repeat(['bulk_update'], MAX_ROWS, {
    values: i => `{"id":"$p.${i}.id","a":"x"}`
  }),
  'one row of columns': wrap(['insert', 'upsert'], maxColumns, [
    'values', i => `"${column(i)}":${i}`, list => `{${list}}`
  ]),
  'rows of 100 columns': repeat(['insert', 'upsert'], MAX_ROWS, {
    values: () => `{${times(100, i => `"${column(i)}":1`).join()}}`
  }),
  'duplicate keys at the end': wrap(['insert'], UNLIMITED, [
    'values', i => `"k${i}":1`, list => `{"j":{${list},"k0":1}}`
  ]),
  'unknown members': part(['select', 'insert', 'update', 'delete', 'call'], UNLIMITED, n =>
    Object.fromEntries(times(n, i => `m${i}`).map(name => [name, ['1']]))),
  'conditions on one operation of when': part(['select'], 1, () => ({
    when: ['"p":{"min":0,"max":5}', '"q":0']
  })),
  'too many rows': repeat(['insert', 'bulk_update'], UNLIMITED, { values: () => '{}' })
}

export const others: readonly Part[] = Object.entries(described)
  .map(([name, part]) => ({ name, ...part }))
