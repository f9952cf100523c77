/**
 * Generates values and references for columns of each kind.
 *
 * References are generated as placeholders, which finish-batch.ts replaces.
 */
import fc, { type Arbitrary } from 'fast-check'
import { readRaw } from './raw-json.ts'
import type { Kind, Table } from './tables.ts'

/** A placeholder for a reference. Some refer to a missing row or column. */
export interface Placeholder {
  readonly back: number
  readonly row: string
  readonly pick: number
  readonly wants: Kind
  readonly instead: unknown
  /** Whether `$first` cannot stand here. */
  readonly alone: boolean
}
export const placeholder = Symbol('placeholder')
export interface ReferenceNode {
  readonly [placeholder]: Placeholder
}

const raws = (...texts: readonly string[]): Arbitrary<unknown> =>
  fc.constantFrom(...texts).map(readRaw)
export const rarely = (usual: Arbitrary<unknown>, odd: Arbitrary<unknown>): Arbitrary<unknown> =>
  fc.oneof({ arbitrary: usual, weight: 60 }, { arbitrary: odd, weight: 1 })

export const smallDoc: Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    {}, [], { b: 'x' }, [1, 2], { a: { c: null } }, 'text', true, { $inc: 1, b: 2 },
    { a: '$$o0.id' }, ['$5.00', null]
  ),
  raws('{"a":1.10}', '{"a":12345678901234567890.10,"b":[1e2]}', '1.50', '{"b":{"c":-0},"a":"1"}')
)

/** Values by kind, as JSON. PostgreSQL rejects some of them. */
export const literals: Readonly<Record<Kind, Arbitrary<unknown>>> = {
  int: rarely(
    fc.oneof(
      fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 0, max: 8 }), raws('-0', '4', '"5"')
    ),
    fc.oneof(raws('1.5', '99999999999', '1e2', '13'), fc.constantFrom<unknown>('', 'x', true))
  ),
  big: rarely(
    raws('9007199254740993', '-9223372036854775808', '0', '-1', '"9223372036854775807"'),
    raws('1.5', '9223372036854775808', '"x"')
  ),
  num: rarely(
    raws('0.0', '1.10', '-0', '7', '100', '0.005', '2.5e1', '1e2', '"2.50"', '9007199.993'),
    raws('12345678901234567890.1234567890', '"NaN"', '"x"', '"1e5000"')
  ),
  float: rarely(
    raws('0.1', '1', '-0', '1e300', '2.5', '"Infinity"', '"NaN"', '123456789.123456789'),
    raws('1e400', '"x"')
  ),
  text: rarely(
    fc.oneof(
      fc.constantFrom(
        'a', 'b', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', '', ' ', 'A', '$5.00',
        '$$o0.0.id', '$$$o1', '$$ off', '$x[0].id', '$$x[0]', 'ä"\'\\😀', '%', '{}', 'null'
      ),
      fc.string({ unit: 'grapheme', maxLength: 4 }).filter(
        text => !text.includes('\0') && !/^\$[A-Za-z_]/.test(text)
      )
    ),
    fc.oneof(raws('1.10', '-0', '1e2'), fc.constantFrom(true))
  ),
  bool: rarely(fc.constantFrom<unknown>(true, false, 'yes', 'f'), fc.constantFrom('maybe')),
  day: rarely(
    fc.constantFrom('2024-02-29', '2001-01-01', 'infinity', '0044-03-15 BC'),
    fc.constantFrom('2023-02-30', 'x')
  ),
  at: fc.constantFrom(
    '2001-01-01T00:00:00.123456Z', '2000-06-01 12:00:00+02', '1999-12-31T23:59:59Z'
  ),
  tags: fc.oneof(
    fc.array(
      fc.constantFrom<unknown>('red', 'x y', '{}', 'NULL', '', '"\\', null, '$$o0.id'),
      { maxLength: 3 }
    ),
    fc.constantFrom('{red,NULL}', '{}')
  ),
  doc: smallDoc
}

/** The kinds of columns whose values always fit a column of each kind. */
export const fits: Readonly<Record<Kind, readonly Kind[]>> = {
  int: ['int'],
  big: ['int', 'big'],
  num: ['int', 'big', 'num'],
  float: ['int', 'float'],
  text: ['text', 'int', 'big', 'num', 'bool', 'day', 'at'],
  bool: ['bool'],
  day: ['day'],
  at: ['at'],
  tags: ['tags'],
  doc: ['int', 'big', 'num', 'text', 'bool', 'day', 'tags', 'doc']
}

export function referenceTo (
  wants: Kind,
  rows: readonly string[],
  instead: Arbitrary<unknown>,
  { alone = false } = {}
): Arbitrary<unknown> {
  const row = rarely(
    fc.constantFrom(...rows), fc.constantFrom(...rows.includes('0') ? ['2', '9'] : rows)
  ) as Arbitrary<string>
  return fc.record({
    back: fc.nat({ max: 6 }),
    row,
    pick: fc.nat({ max: 150 }),
    wants: fc.constant(wants),
    instead,
    alone: fc.constant(alone)
  })
    .map((drawn): ReferenceNode => ({ [placeholder]: drawn }))
}

export const cellRows = ['0', '0', '0', '', '1']
export const wholeRows = ['whole 0', 'whole']

/** Columns of foreign keys, for which most numbers are invalid. */
export const foreign = new Set(['shelf_id', 'inside', 'a'])
export const known = rarely(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 4, max: 9 }))

export function value (kind: Kind, nullable = true, plain = literals[kind]): Arbitrary<unknown> {
  return fc.oneof(
    { arbitrary: plain, weight: 12 },
    { arbitrary: fc.constant(null), weight: nullable ? 1 : 0 },
    {
      arbitrary: referenceTo(
        kind,
        kind === 'tags'
          ? [...cellRows, '*']
          : kind === 'doc'
            ? [...cellRows, ...wholeRows, '*']
            : cellRows,
        plain
      ),
      weight: 4
    },
    ...(kind === 'doc'
      ? [{
          arbitrary: fc.record({
            k: referenceTo('doc', [...cellRows, ...wholeRows, '*'], plain),
            m: fc.array(referenceTo('doc', cellRows, plain), { maxLength: 2 })
          }),
          weight: 1
        }]
      : [])
  )
}

export const entries = (table: Table): ReadonlyArray<readonly [string, Kind]> =>
  Object.entries(table.columns)
export const columnsOf = (table: Table, kinds: readonly Kind[]): readonly string[] =>
  entries(table).filter(([, kind]) => kinds.includes(kind)).map(([name]) => name)

/** Generates records with a few members of `of`, usually including those of `needed`. */
export function arbitraryMembers (
  of: Readonly<Record<string, Arbitrary<unknown>>>,
  needed: readonly string[],
  most: number
): Arbitrary<Record<string, unknown>> {
  const names = Object.keys(of)
  const chosen = fc.tuple(
    fc.subarray(names, { maxLength: Math.min(most, names.length) }),
    rarely(fc.constant(needed), fc.constant([])) as Arbitrary<readonly string[]>
  )
  return chosen.chain(([names, needed]) => fc.record(
    Object.fromEntries(
      [...new Set([...needed, ...names])].map(name => [name, of[name] as Arbitrary<unknown>])
    )
  ))
}

export function arbitraryRow (table: Table): Arbitrary<object> {
  const isId = (name: string): boolean => name === 'id'
  return arbitraryMembers(
    Object.fromEntries(
      entries(table).filter(([name]) => !isId(name)).map(([name, kind]) => [
        name,
        value(kind, !table.needed.includes(name), foreign.has(name) ? known : literals[kind])
      ])
    ),
    table.needed,
    4
  )
}
