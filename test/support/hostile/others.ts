/**
 * Parts of single members: order, groups, nested reads, joined rows, keys.
 */
import type { Frame } from './draft.ts'
import {
  column,
  filtering,
  path,
  reference,
  times,
  MAX_COLUMNS,
  MAX_CONDITIONS,
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
const unknownMember: Element = i => `"u${i}":1`
const inRead = (text: string): string => `"w":{"table":"u","on":{"t_id":"id"},${text}}`

/** A nested read of this many levels. */
function levels (i: number, depth: number): string {
  const inner = depth === 1 ? '' : `,"with":{${levels(i, depth - 1)}}`
  return `"w${i}":{"table":"u","on":{"t_id":"id"}${inner}}`
}

const ordering: readonly Frame[] = ['select', 'nested', 'call']
const grouping: readonly Frame[] = ['select', 'insert_from', 'update_from']

const described: Readonly<Record<string, Described>> = {
  'after of references': repeat(['select'], 100, {
    order: i => `{"${column(i)}":"asc"}`, after: reference
  }),
  'after of paths': repeat(['select'], 100, {
    order: i => `{"${path(i, 99)}":"asc"}`, after: i => `"x${i}"`
  }),
  'after with nulls': repeat(['select'], 100, {
    order: i => `{"${column(i)}":{"direction":"desc","nulls":"last"}}`,
    after: i => i % 2 === 0 ? 'null' : '1'
  }),
  'after of too many values': repeat(['select'], UNLIMITED, {
    order: i => `{"${column(i)}":"asc"}`, after: String
  }),
  'order of names': repeat(ordering, MAX_COLUMNS, { order: i => `{"${column(i)}":"asc"}` }),
  'order of paths': repeat(ordering, MAX_COLUMNS, {
    order: i => `{"${path(i, 99)}":{"direction":"desc","nulls":"last"}}`
  }),
  'rows of a page': repeat(['select', 'call'], 1, {
    limit: () => '10', offset: () => '2147483647'
  }),
  'order of one name': repeat(ordering, MAX_COLUMNS, { order: () => '{"a":"asc"}' }),
  'order of unknown directions': repeat(ordering, UNLIMITED, {
    order: i => `{"a":"ascending${i}"}`
  }),
  'order of aliases': repeat(['select'], MAX_COLUMNS, {
    columns: alias, order: i => `{"${column(i)}":"asc"}`
  }),
  'group_by of names': part(grouping, MAX_COLUMNS, n => ({
    columns: ['{"fn":"count","as":"n"}'], group_by: times(n, quoted)
  })),
  'group_by of paths': part(grouping, MAX_COLUMNS, n => ({
    columns: ['{"fn":"count","as":"n"}'], group_by: times(n, i => `"${path(i, 99)}"`)
  })),
  'group_by with having': repeat(['select'], MAX_CONDITIONS, {
    columns: quoted, group_by: quoted, having: i => `{"${column(i)}":{"eq":${i}}}`
  }),
  'having of aggregates': repeat(['count'], MAX_CONDITIONS, {
    columns: i => `{"fn":"sum","column":"${path(i, 20)}","as":"${column(i)}"}`,
    having: i => `{"${column(i)}":{"gt":${i}}}`
  }),
  'having of one aggregate of a path': part(['count'], MAX_CONDITIONS, n => ({
    columns: [`{"fn":"max","column":"${path(1, 99)}","as":"m"}`],
    having: times(n, i => `{"m":{"gt":${i}}}`)
  })),
  'distinct columns': part(['select'], MAX_COLUMNS, n => ({
    distinct: ['true'], columns: times(n, quoted)
  })),
  'reads of with': repeat(['nested'], 100, { with: read }),
  'reads of with, 5 levels': repeat(['nested'], 20, { with: i => levels(i, 5) }),
  'levels of with': part(['nested'], 5000, n => ({ with: [levels(0, n)] })),
  'too many reads of with': repeat(['nested'], UNLIMITED, { with: read }),
  'columns of with': wrap(['nested'], MAX_COLUMNS, ['with', quoted, list =>
    inRead(`"columns":[${list}]`)]),
  'order of with': wrap(
    ['nested'], MAX_COLUMNS,
    ['with', i => `{"${path(i, 99)}":"asc"}`, list => inRead(`"order":[${list}],"limit":5`)]
  ),
  'conditions of with': wrap(['nested'], MAX_CONDITIONS, ['with', condition, list =>
    inRead(`"where":{"and":[${list}]}`)]),
  'on of with': wrap(
    ['nested'], UNLIMITED, ['with', onId, list => `"w":{"table":"u","one":true,"on":{${list}}}`]
  ),
  'on of exists': wrap(
    filtering, UNLIMITED, ['where', onId, list => `{"exists":{"table":"u","on":{${list}}}}`]
  ),
  'on of from': repeat(['update_from', 'delete_from'], UNLIMITED, {
    'from.on': i => `"${column(i)}":"${path(i, 10)}"`
  }),
  'conditions of from': repeat(['insert_from', 'update_from', 'delete_from'], MAX_CONDITIONS, {
    'from.where': condition
  }),
  'columns of from': repeat(['insert_from', 'update_from'], MAX_COLUMNS, { 'from.columns': alias }),
  'columns of from, read by set': repeat(['update_from'], MAX_COLUMNS, {
    'from.columns': alias, set: i => `"${column(i)}":{"$from":"${column(i)}"}`
  }),
  'operands of from': repeat(['update_from'], MAX_CONDITIONS, {
    where: i => `{"a":{"eq":{"$from":"${path(i, 20)}"}}}`
  }),
  '$from inside modifiers': repeat(['update_from'], MAX_COLUMNS, {
    set: i => `"${column(i)}":{"$inc":{"$from":"${path(i, 20)}"}}`
  }),
  'columns of insert from': repeat(['insert_from'], MAX_COLUMNS, {
    columns: i => `"${column(i)}":{"$col":"${path(i, 20)}"}`
  }),
  'references in columns of insert from': repeat(['insert_from'], MAX_COLUMNS, {
    columns: i => `"${column(i)}":${reference(i)}`
  }),
  args: repeat(['call'], UNLIMITED, { args: i => `"${column(i)}":${i}` }),
  'args of references': repeat(['call'], UNLIMITED, {
    args: i => `"${column(i)}":${reference(i)}`
  }),
  'args of JSON': repeat(['call'], UNLIMITED, { args: i => `"${column(i)}":{"k":[${i}]}` }),
  'columns of on_conflict': repeat(['upsert'], MAX_COLUMNS, { 'on_conflict.columns': quoted }),
  'conditions of on_conflict': repeat(['upsert'], MAX_CONDITIONS, {
    'on_conflict.where': i => `{"a":{"eq":{"$excluded":"${path(i, 20)}"}}}`
  }),
  'references in conditions of on_conflict': repeat(['upsert'], MAX_CONDITIONS, {
    'on_conflict.where': condition
  }),
  'conditions of index_where': repeat(['upsert'], MAX_CONDITIONS, {
    'on_conflict.index_where': i => `{"a":{"eq":"x${i}"}}`
  }),
  'repeated parts of on_conflict with rows of 50 shapes': part(['upsert'], 33, n => ({
    values: times(MAX_ROWS / 2, i => `{"id":${i},"c${i % 50}":1}`),
    'on_conflict.set': times(n, i => `"${column(i)}":{"$merge":{"k":${reference(i)}}}`)
  })),
  'columns of key': part(['bulk_update'], MAX_COLUMNS, n => ({
    key: times(n, i => `"k${i}"`),
    values: [`{"id":1,"a":"x",${times(n, i => `"k${i}":${i}`).join()}}`]
  })),
  'columns of key with aliases': part(['bulk_update'], MAX_COLUMNS, n => ({
    key: times(n, i => `{"column":"k${i}","as":"l${i}"}`),
    values: [`{"id":1,"a":"x",${times(n, i => `"l${i}":${i}`).join()}}`]
  })),
  'the same key': repeat(['bulk_update'], MAX_ROWS, { values: () => '{"id":1,"a":"x"}' }),
  'keys that are references': repeat(['bulk_update'], MAX_ROWS, {
    values: i => `{"id":"$p.${i}.id","a":"x"}`
  }),
  'keys that are JSON': repeat(['bulk_update'], MAX_ROWS, {
    values: i => `{"id":{"k":[${i}]},"a":"x"}`
  }),
  'one row of columns': wrap(['insert', 'upsert'], MAX_COLUMNS, [
    'values', i => `"${column(i)}":${i}`, list => `{${list}}`
  ]),
  'one row of columns with references': wrap(['insert'], MAX_COLUMNS, [
    'values', i => `"${column(i)}":${reference(i)}`, list => `{${list}}`
  ]),
  'rows of 100 columns': repeat(['insert', 'upsert'], MAX_ROWS, {
    values: () => `{${times(100, i => `"${column(i)}":1`).join()}}`
  }),
  'duplicate keys at the end': wrap(['insert'], UNLIMITED, [
    'values', i => `"k${i}":1`, list => `{"j":{${list},"k0":1}}`
  ]),
  'objects with a duplicate key in the last': wrap(['insert'], UNLIMITED, [
    'values', () => '{"k":1}', list => `{"j":[${list},{"k":1,"k":2}]}`
  ]),
  'members of a JSON object': wrap(['update'], UNLIMITED, [
    'set', i => `"k${i}":1`, list => `"j":{${list}}`
  ]),
  'unknown members': part(['select', 'insert', 'update', 'delete', 'call'], UNLIMITED, n =>
    Object.fromEntries(times(n, i => `m${i}`).map(name => [name, ['1']]))),
  'unknown members, almost known': part(['select', 'update', 'insert'], UNLIMITED, n =>
    Object.fromEntries(times(n, i => `wher${i}`).map(name => [name, ['1']]))),
  'unknown operations of when': repeat(['select'], UNLIMITED, { when: unknownMember }),
  'unknown members of when': wrap(['select'], UNLIMITED, [
    'when', unknownMember, list => `"p":{${list}}`
  ]),
  'conditions on one operation of when': part(['select'], 1, () => ({
    when: ['"p":{"min":0,"max":5}', '"q":0']
  })),
  'columns of one condition': wrap(['select'], MAX_CONDITIONS, [
    'where', i => `"${column(i)}":{"eq":${i}}`, list => `{${list}}`
  ]),
  'too many conditions': repeat(filtering, UNLIMITED, { where: () => '{"a":{"eq":1}}' }),
  'too many rows': repeat(['insert', 'bulk_update'], UNLIMITED, { values: () => '{}' }),
  'too many columns': repeat(['select'], UNLIMITED, { columns: quoted })
}

export const others: readonly Part[] = Object.entries(described)
  .map(([name, part]) => ({ name, ...part }))
