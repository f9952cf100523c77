/**
 * Generates the columns that an operation returns, also aggregates.
 */
import fc, { type Arbitrary } from 'fast-check'
import { arbitraryFilter } from './arbitrary-filter.ts'
import { columnsOf, entries } from './arbitrary-value.ts'
import { outputKinds, safeCasts } from './output-kinds.ts'
import type { Table } from './tables.ts'

export const optional = (arbitrary: Arbitrary<unknown>, weight = 1, of = 4): Arbitrary<unknown> =>
  fc.oneof({ arbitrary: fc.constant(undefined), weight: of }, { arbitrary, weight })

/** Generates columns to return, some with another name or type. */
export function arbitraryColumns (table: Table): Arbitrary<readonly unknown[]> {
  const names = Object.keys(table.columns)
  const extra = 'doc' in table.columns
    ? [{ column: 'doc->a', as: 'inner' }, { column: 'doc->>b', as: 'word' }, 'doc->b->c']
    : [{ column: 'n', as: 'again' }]
  return fc.tuple(
    fc.oneof(
      { arbitrary: fc.subarray(names, { minLength: 1 }), weight: 4 },
      { arbitrary: fc.constant(['*']), weight: 1 }
    ),
    fc.subarray(extra),
    fc.oneof({ arbitrary: fc.constant([]), weight: 3 }, {
      arbitrary: fc.array(arbitraryCast(table), { maxLength: 1 }), weight: 1
    })
  ).map(parts => parts.flat())
}

function arbitraryCast (table: Table): Arbitrary<object> {
  const safe = fc.constantFrom(...entries(table)).chain(([column, kind]) =>
    fc.constantFrom(...safeCasts[kind]).map(cast => ({ column, cast, as: `as_${cast}` })))
  const unsafe = 'doc' in table.columns
    ? fc.constantFrom('int', 'numeric', 'text').map(cast => ({ column: 'doc->>a', cast }))
    : fc.constant({ column: 'note', cast: 'int' })
  return fc.oneof({ arbitrary: safe, weight: 9 }, {
    arbitrary: unsafe.map(one => ({ ...one, as: `as_${one.cast}` })), weight: 1
  })
}

export function withHaving (
  columns: Arbitrary<readonly unknown[]>,
  table: Table
): Arbitrary<{ columns: readonly unknown[], having: object }> {
  return columns.chain(columns => fc.record({
    columns: fc.constant(columns),
    having: arbitraryFilter(
      { ...table, columns: outputKinds(columns, table.columns) }, { levels: 1 }
    )
  }))
}

/** Generates the members of a select of aggregates, with an order of all groups. */
export function aggregates (table: Table): Arbitrary<Readonly<Record<string, unknown>>> {
  const summed = columnsOf(table, ['int', 'big', 'num'])
  const ranged = columnsOf(table, ['int', 'big', 'num', 'float', 'text', 'day', 'at'])
  const one = fc.oneof(
    fc.constant({ fn: 'count' }),
    fc.tuple(
      fc.constantFrom('sum', 'avg', 'count'), fc.constantFrom(...summed),
      fc.constantFrom({}, {}, { distinct: true }, { cast: 'numeric' })
    ).map(([fn, column, how]) => ({ fn, column, ...how, as: `${fn}_${column}` })),
    fc.tuple(fc.constantFrom('min', 'max'), fc.constantFrom(...ranged)).map(([fn, column]) => ({
      fn, column, as: `${fn}_${column}`
    }))
  )
  const fns = fc.uniqueArray(one, {
    minLength: 1, maxLength: 3, selector: ({ fn, ...others }) => 'as' in others ? others.as : fn
  })
  const groups = fc.subarray(columnsOf(table, ['int', 'text', 'bool', 'num']) as string[], {
    maxLength: 2
  })
  const columns = fc.tuple(groups, fns).chain(([groups, fns]) => {
    const all = fc.constant([...groups, ...fns])
    return fc.record({
      groups: fc.constant(groups),
      output: fc.oneof({ arbitrary: all.map(columns => ({ columns })), weight: 2 }, {
        arbitrary: withHaving(all, table), weight: 1
      })
    })
  })
  return fc.record({
    columns, where: optional(arbitraryFilter(table), 1, 1), paged: fc.option(fc.nat({ max: 3 }))
  }).map(({ columns: { groups, output }, where, paged }) => ({
    ...output,
    ...(groups.length === 0
      ? {}
      : { group_by: groups, order: groups.map(group => ({ [group]: 'asc' })) }),
    ...(groups.length === 0 || paged === null ? {} : { limit: paged }),
    where
  }))
}
