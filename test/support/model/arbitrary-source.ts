/**
 * Generates `from`: the rows that an insert stores, or that an update or a delete is joined to.
 */
import fc, { type Arbitrary } from 'fast-check'
import { aggregates, arbitraryColumns, optional } from './arbitrary-columns.ts'
import { arbitraryFilter, arbitraryPairs, comparable } from './arbitrary-filter.ts'
import { arbitraryMembers, columnsOf, literals, rarely, value } from './arbitrary-value.ts'
import { outputKinds } from './output-kinds.ts'
import { modelTables, type Kind, type Table } from './tables.ts'

export interface Source {
  readonly from: Readonly<Record<string, unknown>>
  /** The columns that an operation can name. */
  readonly columns: Table['columns']
}

type Columns = readonly unknown[] | undefined

/** Rows of a table, in the order of its key if `ordered`. */
function plainSource (name: string, table: Table, ordered: boolean): Arbitrary<Source> {
  return fc.record({
    columns: optional(arbitraryColumns(table), 1, 3),
    where: optional(arbitraryFilter(table), 2, 1),
    limit: optional(fc.nat({ max: 3 }), 1, 1),
    offset: optional(fc.nat({ max: 1 }), 1, 6),
    how: fc.constantFrom('asc', 'desc')
  }).map(({ columns, where, limit, offset, how }) => {
    const order = table.key.map(key => ({ [key]: how }))
    return {
      from: { table: name, columns, where, ...ordered ? { order, limit, offset } : {} },
      columns: { ...table.columns, ...outputKinds(columns as Columns ?? [], table.columns) }
    }
  })
}

function groupedSource (name: string, table: Table, ordered: boolean): Arbitrary<Source> {
  return aggregates(table).map(({ order, limit, ...members }) => ({
    from: { table: name, ...members, ...ordered ? { order, limit } : {} },
    columns: outputKinds(members['columns'] as Columns, table.columns)
  }))
}

function distinctSource (name: string, table: Table): Arbitrary<Source> {
  return fc.record({
    columns: fc.subarray(columnsOf(table, comparable) as string[], { minLength: 1 }),
    where: optional(arbitraryFilter(table), 1, 1),
    how: fc.constantFrom('asc', 'desc')
  }).map(({ columns, where, how }) => ({
    from: {
      table: name, columns, where, distinct: true, order: columns.map(column => ({ [column]: how }))
    },
    columns: outputKinds(columns, table.columns)
  }))
}

function arbitrarySource (ordered: boolean): Arbitrary<Source> {
  return fc.oneof(...Object.entries(modelTables).flatMap(([name, table]) => [
    { arbitrary: plainSource(name, table, ordered), weight: 4 },
    { arbitrary: groupedSource(name, table, ordered), weight: 1 },
    ...ordered ? [{ arbitrary: distinctSource(name, table), weight: 1 }] : []
  ]))
}

/** The kinds that an INSERT converts to each kind. */
const converted: Readonly<Record<Kind, readonly Kind[]>> = {
  int: ['int'],
  big: ['int', 'big', 'num'],
  num: ['int', 'big', 'num', 'float'],
  float: ['int', 'big', 'num', 'float'],
  text: ['int', 'big', 'num', 'text', 'bool', 'day', 'at'],
  bool: ['bool'],
  day: ['day', 'at'],
  at: ['at', 'day'],
  tags: ['tags'],
  doc: ['doc']
}

export function insertSource (table: Table): Arbitrary<object> {
  return arbitrarySource(true).chain(({ from, columns }) => {
    const source = { ...table, columns }
    const cells = Object.entries(table.columns).filter(([name]) => name !== 'id')
      .map(([name, kind]): [string, Arbitrary<unknown>] => {
        const names = [
          ...columnsOf(source, converted[kind]),
          ...kind === 'doc' && Object.hasOwn(columns, 'doc') ? ['doc->a', 'doc->b'] : []
        ]
        const read = names.length === 0
          ? []
          : [{ arbitrary: fc.constantFrom(...names).map($col => ({ $col })), weight: 4 }]
        const others = Object.keys(columns).map($col => ({ $col }))
        return [name, fc.oneof(
          ...read,
          {
            arbitrary: rarely(
              value(kind, !table.needed.includes(name)), fc.constantFrom(...others)
            ),
            weight: 2
          },
          { arbitrary: literals[kind].map($value => ({ $value })), weight: 1 }
        )]
      })
    return fc.record({
      from: fc.constant(from),
      columns: arbitraryMembers(Object.fromEntries(cells), table.needed, 3)
        .filter(columns => Object.keys(columns).length > 0)
    })
  })
}

/** Generates `from` of an update or a delete, and the columns that it has. */
export function joinedSource (table: Table): Arbitrary<Source> {
  return arbitrarySource(false).chain(({ from, columns }) => {
    const source = { ...table, columns }
    const on = Object.keys(table.columns).some(column =>
      Object.values(columns).includes(table.columns[column] as Kind))
      ? arbitraryPairs(table, source)
      : fc.constant({ [table.key[0] as string]: Object.keys(columns)[0] })
    return on.map(on => ({ from: { ...from, on }, columns }))
  })
}
