/**
 * Generates random batches over three small tables, for tests that compare the service with a model
 * or send it almost valid requests.
 *
 * Batches follow the grammar and succeed more often than not. References are generated as
 * placeholders and become strings when the preceding operations are known, so most of them name
 * existing rows and columns.
 */
import fc, { type Arbitrary } from 'fast-check'
import { aggregates, arbitraryColumns, optional, withHaving } from './arbitrary-columns.ts'
import { arbitraryFilter, comparable, numeric, single } from './arbitrary-filter.ts'
import { insertSource, joinedSource } from './arbitrary-source.ts'
import {
  arbitraryMembers,
  arbitraryRow,
  cellRows,
  columnsOf,
  entries,
  foreign,
  known,
  literals,
  referenceTo,
  smallDoc,
  value,
  rarely,
  wholeRows
} from './arbitrary-value.ts'
import { compact, finish, type Operation } from './finish-batch.ts'
import { digitsOf } from './raw-json.ts'
import { echo, modelTables, type Kind, type Table } from './tables.ts'

export interface Trial {
  /** Numbers whose digits matter are raw JSON (JSON.rawJSON). */
  readonly operations: readonly Operation[]
  readonly prefer: Readonly<Record<string, string>>
}

/**
 * Generates the `set` of an update, or with `conflict` of `on_conflict`. Keys and columns of unique
 * constraints only get plain values. `source`: the columns of `from`.
 */
function arbitrarySet (
  table: Table,
  conflict: boolean,
  source: Table['columns'] = {}
): Arbitrary<object> {
  const fixed = new Set(['id', 'code', 'slot', 'shelf_id', 'a', 'b', 'n', 'inside'])
  const assigned = (
    [name, kind]: readonly [string, Kind]
  ): readonly [string, Arbitrary<unknown>] => {
    const digits = literals[kind].filter(operand => digitsOf(operand) !== undefined)
    const number = fc.oneof({ arbitrary: digits, weight: 2 }, {
      arbitrary: referenceTo(kind, cellRows, digits), weight: 1
    })
    const same = fc.constantFrom(...columnsOf(table, [kind]))
    const modifiers: Arbitrary<object>[] = [
      fc.constant({ $default: true }),
      same.map($col => ({ $col })),
      literals[kind].map($value => ({ $value })),
      ...(conflict ? [same.map($excluded => ({ $excluded }))] : []),
      ...(numeric.includes(kind)
        ? [
            number.map($inc => ({ $inc })), number.map($dec => ({ $dec })),
            number.map($mul => ({ $mul }))
          ]
        : []),
      ...(kind === 'at'
        ? [fc.constant({ $now: true }), fc.constantFrom(1, -60, 0.5).map($inc => ({ $inc }))]
        : []),
      ...(kind === 'tags'
        ? [
            fc.oneof(
              fc.subarray(['x', '{}', null]),
              referenceTo('tags', [...cellRows, '*'], fc.constant(['y']))
            )
              .map($append => ({ $append }))
          ]
        : []),
      ...(kind === 'doc'
        ? [
            fc.oneof(
              fc.constantFrom<unknown>({}, { b: 'y' }, { $inc: 2 }, { a: [null] }),
              fc.record({ r: referenceTo('doc', [...cellRows, ...wholeRows], smallDoc) })
            ).map($merge => ({ $merge })),
            fc.array(fc.oneof(smallDoc, referenceTo('doc', cellRows, smallDoc)), { maxLength: 2 })
              .map($append => ({ $append })),
            fc.constantFrom('a', 'b', 'zz').map($remove => ({ $remove }))
          ]
        : [])
    ]
    const joined = columnsOf({ ...table, columns: source }, [kind])
    if (joined.length > 0) {
      const $from = fc.constantFrom(...joined).map($from => ({ $from }))
      const words = numeric.includes(kind)
        ? ['$inc', '$dec', '$mul']
        : kind === 'doc' ? ['$merge', '$append'] : kind === 'tags' ? ['$append'] : []
      modifiers.push($from, $from, $from, ...words.map(word => single(fc.constant(word), $from)))
    }
    const plain = value(kind, true, foreign.has(name) ? known : literals[kind])
    return [
      name,
      fixed.has(name)
        ? plain
        : fc.oneof({ arbitrary: plain, weight: 2 }, {
          arbitrary: fc.oneof(...modifiers), weight: 3
        })
    ]
  }
  const columns = (without: readonly string[]): Arbitrary<unknown> => arbitraryMembers(
    Object.fromEntries(entries(table).filter(([name]) => !without.includes(name)).map(assigned)),
    [], 3
  )
  const sets = rarely(columns(['id', 'code', 'a', 'b', 'slot', 'inside']), columns(['id']))
  return (sets as Arbitrary<object>).filter(set => Object.keys(set).length > 0)
}

function arbitraryConflict (table: Table): Arbitrary<object> {
  const target = fc.constantFrom(...table.targets)
  return fc.tuple(
    target,
    fc.oneof(
      fc.constant({ do: 'nothing' }),
      fc.constant({ do: 'update' }),
      arbitrarySet(table, true).map(set => ({ do: 'update', set })),
      fc.tuple(arbitrarySet(table, true), arbitraryFilter(table)).map(([set, where]) => ({
        do: 'update', set, where
      })),
      fc.tuple(arbitrarySet(table, true), fc.constantFrom(...columnsOf(table, ['int'])))
        .map(([set, column]) => {
          const where = { [column]: { isdistinct: { $excluded: column } } }
          return { do: 'update', set, where }
        })
    )
  ).map(([target, action]) => ({ ...target, ...action }))
}

const returning = (table: Table): Arbitrary<unknown> => optional(
  fc.oneof({ arbitrary: arbitraryColumns(table), weight: 4 }, {
    arbitrary: fc.constant([]), weight: 1
  })
)
const expectation = optional(
  fc.constantFrom<unknown>(1, 0, 2, { min: 1 }, { max: 2 }, { min: 1, max: 9 }, { min: 0 }), 1, 25
)
/** Distances to earlier operations with their numbers of rows; `finish` sets the ids. */
const condition = optional(
  fc.array(
    fc.tuple(
      fc.nat({ max: 6 }),
      fc.constantFrom<unknown>(0, 1, 2, { min: 1 }, { max: 1 }, { min: 1, max: 3 })
    ),
    { minLength: 1, maxLength: 2 }
  ),
  1,
  5
)
const direction = fc.constantFrom<unknown>('asc', 'desc', { direction: 'desc', nulls: 'last' }, {
  direction: 'asc', nulls: 'first'
})

function arbitraryOrder (names: readonly string[]): Arbitrary<readonly object[]> {
  return fc.tuple(
    fc.shuffledSubarray([...names], { minLength: 1, maxLength: 2 }),
    fc.array(direction, { minLength: 2, maxLength: 2 })
  )
    .map(([names, directions]) => names.map((name, i) => ({ [name]: directions[i] })))
}

/** Generates selects of rows, with a total order if the order matters. */
function plainSelect (table: Table): Arbitrary<object> {
  const total = fc.tuple(arbitraryOrder(columnsOf(table, comparable)), direction)
    .map(([order, last]) => [
      ...order.filter(one => !table.key.includes(Object.keys(one)[0] as string)),
      ...table.key.map(key => ({ [key]: last }))
    ])
  const page = fc.tuple(
    total.chain(order => fc.record({ order: fc.constant(order), after: startOf(order, table) })),
    fc.record({
      limit: optional(fc.nat({ max: 4 }), 1, 1), offset: optional(fc.nat({ max: 2 }), 1, 2)
    })
  ).map(([order, limits]) => ({ ...order, ...limits }))
  const lock = optional(
    fc.constantFrom<unknown>('update', 'key_share', { mode: 'share', wait: 'nowait' }, {
      wait: 'skip_locked'
    }),
    1,
    8
  )
  return fc.tuple(
    fc.oneof(
      {
        arbitrary: fc.record({ columns: optional(arbitraryColumns(table), 1, 2), lock }), weight: 4
      },
      { arbitrary: withHaving(arbitraryColumns(table), table), weight: 1 }
    ),
    fc.record({ where: optional(arbitraryFilter(table), 3, 1) }),
    fc.oneof({ arbitrary: page, weight: 4 }, {
      arbitrary: fc.record({ order: arbitraryOrder(columnsOf(table, comparable)) }), weight: 1
    }, { arbitrary: fc.constant({}), weight: 1 })
  ).map(([select, where, page]) => ({ ...select, ...where, ...page }))
}

/** Generates the values of `after` for an order, or undefined. */
function startOf (order: readonly object[], table: Table): Arbitrary<unknown> {
  const values = order.map(one => {
    const kind = table.columns[Object.keys(one)[0] as string] as Kind
    return fc.oneof(
      { arbitrary: literals[kind], weight: 3 }, { arbitrary: fc.constant(null), weight: 1 },
      { arbitrary: referenceTo(kind, cellRows, literals[kind], { alone: true }), weight: 2 }
    )
  })
  return optional(fc.tuple(...values), 1, 2)
}

/** Generates selects of distinct rows, with an order of all columns if the order matters. */
function distinctSelect (table: Table): Arbitrary<object> {
  const ordered = fc.shuffledSubarray(columnsOf(table, comparable) as string[], { minLength: 1 })
    .chain(columns => fc.record({
      columns: fc.constant(columns),
      order: fc.tuple(...columns.map(name => direction.map(how => ({ [name]: how })))),
      limit: optional(fc.nat({ max: 3 }), 1, 1),
      offset: optional(fc.nat({ max: 1 }), 1, 3)
    })
    )
  const unordered = fc.record({
    columns: optional(arbitraryColumns(table), 3, 1), order: fc.constant(undefined)
  })
  const whole = fc.record({ order: arbitraryOrder(columnsOf(table, comparable)) })
  return fc.tuple(
    fc.oneof<Arbitrary<object>[]>(ordered, unordered, whole), optional(arbitraryFilter(table), 1, 1)
  ).map(([select, where]) => ({ ...select, where, distinct: true }))
}

const common = {
  expect: expectation,
  when: condition,
  answer: optional(fc.constantFrom('count', 'count', 'rows'), 1, 9)
}

/** A text is JSON text for a parameter of type jsonb, so none is an argument. */
const argument = (kind: Kind): Arbitrary<unknown> =>
  value(kind, true, kind === 'doc' ? smallDoc.filter(isNested) : literals[kind])

function isNested (value: unknown): boolean {
  return typeof value === 'object' && digitsOf(value) === undefined
}

const call: Arbitrary<object> = fc.record({
  ...common,
  op: fc.constant('call'),
  function: fc.constant('echo'),
  args: fc.record(Object.fromEntries(entries(echo).map(([name, kind]) => [name, argument(kind)])))
})

/** Columns of constraints. Between the rows of an update by key, their changes could conflict. */
const constrained = new Set([...foreign, 'id', 'code', 'slot', 'b', 'n'])

/** Generates the rows of an update by the primary key, each with another key. */
function rowsByKey (table: Table): Arbitrary<object> {
  const key = fc.record(Object.fromEntries(
    table.key.map(name => [name, fc.integer({ min: 1, max: 4 })])))
  const free = entries(table).filter(([name]) => !constrained.has(name))
  const set = arbitrarySet({ ...table, columns: Object.fromEntries(free) }, false)
  const rows = fc.uniqueArray(fc.tuple(key, set), {
    minLength: 1, maxLength: 3, selector: ([key]) => JSON.stringify(key)
  })
  return fc.record({
    key: fc.constant(table.key),
    values: rows.map(all => all.map(([key, set]) => ({ ...key, ...set })))
  })
}

function operationOn (name: string, table: Table): Arbitrary<object> {
  const base = { ...common, table: fc.constantFrom(name, name, `public.${name}`) }
  const filtered = fc.oneof(
    { arbitrary: arbitraryFilter(table).map(where => ({ where })), weight: 9 },
    { arbitrary: fc.constant({ all: true }), weight: 1 }
  )
  const values = fc.oneof({
    arbitrary: fc.array(arbitraryRow(table), { minLength: 1, maxLength: 1 }), weight: 2
  }, { arbitrary: fc.array(arbitraryRow(table), { minLength: 1, maxLength: 4 }), weight: 1 })
  const insert = fc.tuple(
    fc.record({
      ...base,
      op: fc.constant('insert'),
      on_conflict: optional(arbitraryConflict(table), 2, 3),
      returning: returning(table)
    }),
    fc.oneof({ arbitrary: values.map(values => ({ values })), weight: 2 }, {
      arbitrary: insertSource(table), weight: 1
    })
  )
  const update = fc.tuple(
    fc.record({ ...base, op: fc.constant('update'), returning: returning(table) }),
    fc.oneof(
      {
        arbitrary: fc.tuple(arbitrarySet(table, false), filtered).map(([set, where]) => ({
          set, ...where
        })),
        weight: 2
      },
      {
        arbitrary: joinedSource(table).chain(({ from, columns }) => fc.record({
          from: fc.constant(from),
          set: arbitrarySet(table, false, columns),
          where: optional(arbitraryFilter(table, { levels: 1, source: columns }), 1, 1)
        })),
        weight: 1
      },
      { arbitrary: rowsByKey(table), weight: 1 }
    )
  )
  const remove = fc.tuple(
    fc.record({ ...base, op: fc.constant('delete'), returning: returning(table) }),
    fc.oneof({ arbitrary: filtered, weight: 2 }, {
      arbitrary: joinedSource(table).chain(({ from, columns }) => fc.record({
        from: fc.constant(from),
        where: optional(arbitraryFilter(table, { levels: 1, source: columns }), 1, 1)
      })),
      weight: 1
    })
  )
  const select = fc.tuple(
    fc.record({ ...base, op: fc.constant('select') }),
    fc.oneof(
      { arbitrary: plainSelect(table), weight: 4 }, { arbitrary: aggregates(table), weight: 1 },
      { arbitrary: distinctSelect(table), weight: 1 }
    )
  )
  const merge = (parts: Arbitrary<readonly [object, object]>): Arbitrary<object> =>
    parts.map(([a, b]) => ({ ...a, ...b }))
  return fc.oneof(
    { arbitrary: merge(insert), weight: 4 }, { arbitrary: merge(select), weight: 4 },
    { arbitrary: merge(update), weight: 3 }, { arbitrary: merge(remove), weight: 1 }
  )
}

/** Generates batches of 1 to 8 operations with their preferences. */
export const arbitraryTrial: Arbitrary<Trial> = fc.record({
  drawn: fc.array(
    fc.oneof(
      ...Object.entries(modelTables).map(([name, table]) =>
        ({ arbitrary: operationOn(name, table), weight: 4 })),
      { arbitrary: call, weight: 1 }
    ),
    { minLength: 1, maxLength: 8, size: 'max' }
  ),
  prefer: fc.record({
    tx: optional(fc.constantFrom('rollback', 'commit'), 1, 4),
    return: optional(fc.constantFrom('minimal', 'representation'), 1, 4),
    isolation: optional(fc.constantFrom('repeatable-read', 'serializable', 'read-committed'), 1, 3),
    access: optional(fc.constantFrom('read-only', 'read-write'), 1, 20)
  }) as Arbitrary<Record<string, string | undefined>>
}).map(({ drawn, prefer }) => ({
  operations: finish(drawn), prefer: compact(prefer) as Record<string, string>
}))
