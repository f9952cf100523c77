/**
 * The modifiers of `set`, which compute a value: objects with exactly one key, which begins with
 * `$`. One row of `modifiers` defines a modifier. filter.ts lists the keywords that schemas have in
 * addition to TypeBox's own.
 */
import { Type, type TSchema } from '@sinclair/typebox'
import {
  dollarObject,
  First,
  firstReferences,
  referenceAttempt,
  SourceOperand,
  type ReferenceKind
} from './operand.ts'

/**
 * A modifier. Placeholders of `sql`: `<column>` is the current value of the column, `<operand>` the
 * operand, `<empty>` the value of `empty` in the type of the column, and `<refused>` an expression
 * that raises `value`. `conflict` modifiers are allowed only in `on_conflict`.
 */
export interface Modifier {
  readonly operand: TSchema
  readonly takes: string
  /**
   * How the operand is read: as the type of the column (`json`), as the type of the difference of
   * two of its values, as the type by which it is multiplied, as text, as the name of a column, as
   * references, or not at all.
   */
  readonly reads:
    | 'difference'
    | 'factor'
    | 'json'
    | 'text'
    | 'column'
    | 'first'
    | 'nothing'
  readonly sql: string
  readonly meaning: string
  /** JSON that replaces NULL. */
  readonly empty?: Readonly<Record<string, never>> | readonly []
  readonly conflict?: boolean
  /** Only beside `from`. */
  readonly joined?: boolean
  /** Whether the operand can be a column of `from`. */
  readonly takesSource?: boolean
}

const referenceTo = (reference: ReferenceKind) =>
  Type.String({ reference, pattern: referenceAttempt.source, expected: 'a reference' })
const number = Type.Union([Type.Number(), referenceTo('value'), First, SourceOperand])
const anything = Type.Unknown({ reference: 'any' })
const path = Type.String({ name: 'path' })
const yes = Type.Literal(true)

// Whether a value can be computed depends on the type of the column. Arrays are recognized by the
// name of the type, because json[] has no operators. CASE gives the base type of a domain, and a
// branch that never runs gives a type without computing anything.
const type = 'pg_typeof(case when false then <column> end)'
const isJsonb = `${type}::oid = 3802`
const current = 'coalesce(<column>, <empty>)'
// Converts to jsonb in any case, because the statement must be valid for every type.
const kindOf = (value: string): string => `jsonb_typeof(to_jsonb(${value}))`
// A type without this operator fails before anything is evaluated. raised-error.ts reads in the
// statement which modifier of which column caused the error.
const joined = (name: string, operand: string): string =>
  `${current} operator(pg_catalog.||) /* ${name} */` +
  ` case when false then <column> else ${operand} end`

// Only objects, on both sides: jsonb || would build an array from anything else.
const added = 'coalesce(<operand>, <empty>)'
const mergeSql = `case when case when ${isJsonb} and ${kindOf(current)} = 'object' and` +
  ` ${kindOf(added)} = 'object' then true else <refused> is null end` +
  ` then ${joined('$merge', added)} end`
// The current value must be an array, or jsonb that is one: text has || too, and jsonb || would
// build an array from anything else.
const appendSql = `case when case when ${type}::text like '%[]' then true` +
  ` when ${isJsonb} and ${kindOf(current)} = 'array' then true else <refused> is null end` +
  ` then coalesce(${joined('$append', '<operand>')}, ${current}) end`

const arithmetic = { operand: number, takes: 'a number or a reference', takesSource: true } as const
const copied = { operand: path, takes: 'a column', reads: 'column', sql: '<operand>' } as const

export const modifiers = {
  $inc: {
    ...arithmetic,
    reads: 'difference',
    sql: '<column> + <operand>',
    meaning: 'adds a number (days, for a date); NULL stays NULL'
  },
  $dec: {
    ...arithmetic,
    reads: 'difference',
    sql: '<column> - <operand>',
    meaning: 'subtracts a number (days, for a date); NULL stays NULL'
  },
  $mul: {
    ...arithmetic,
    reads: 'factor',
    sql: '<column> * <operand>',
    meaning: 'multiplies by a number; NULL stays NULL'
  },
  $now: {
    operand: yes,
    takes: '`true`',
    reads: 'nothing',
    sql: 'now()',
    meaning: 'sets the start time of the transaction'
  },
  $default: {
    operand: yes,
    takes: '`true`',
    reads: 'nothing',
    sql: 'default',
    meaning: 'sets the default of the column'
  },
  $col: {
    ...copied,
    meaning: 'copies a column of the current row'
  },
  $excluded: {
    ...copied,
    meaning: 'copies a column of the row proposed for insertion',
    conflict: true
  },
  $from: {
    ...copied,
    meaning: 'copies a column or an alias of `from`, also inside `$inc`, `$dec`, `$mul`, ' +
      '`$merge` and `$append`',
    joined: true
  },
  $merge: {
    operand: Type.Union([Type.Record(Type.String(), anything), referenceTo('value')]),
    takes: 'an object or a reference',
    reads: 'json',
    sql: mergeSql,
    empty: {},
    meaning: 'sets these members of a jsonb object; NULL counts as an empty object, other values ' +
      'are refused',
    takesSource: true
  },
  $append: {
    operand: Type.Union([Type.Array(anything), referenceTo('any'), First, SourceOperand]),
    takes: 'an array or a reference',
    reads: 'json',
    sql: appendSql,
    empty: [],
    meaning: 'appends these elements to an array or a jsonb array; NULL counts as an empty ' +
      'array, other values are refused',
    takesSource: true
  },
  $remove: {
    operand: Type.Union([Type.String({ reference: 'value' }), First]),
    takes: 'a key, as a string or a reference',
    reads: 'text',
    sql: 'coalesce(<column> - <operand>, <column>)',
    meaning: 'removes a key from a jsonb object'
  },
  $first: {
    operand: firstReferences,
    takes: 'a list of references',
    reads: 'first',
    sql: '<operand>',
    meaning: 'sets the value of the first reference whose row exists; also inside JSON, and in ' +
      '`values`'
  },
  $value: {
    operand: anything,
    takes: 'any JSON',
    reads: 'json',
    sql: '<operand>',
    meaning: 'sets the JSON itself, even if it looks like a modifier'
  }
} as const satisfies Record<string, Modifier>

export type ModifierName = keyof typeof modifiers

const plain = Type.Unknown({
  not: dollarObject,
  title: 'PlainValue',
  description: 'any JSON, which is the value itself; strings in it may be references'
})

/** A new value for the OpenAPI description. Modifiers are checked by their rows, not by this. */
function newValueOf (names: ReadonlyArray<readonly [string, Modifier]>, title: string): TSchema {
  const computed = names.map(([name, { operand, meaning }]) =>
    Type.Object({ [name]: operand }, {
      additionalProperties: false,
      title: `${name.charAt(1).toUpperCase()}${name.slice(2)}Modifier`,
      description: meaning
    })
  )
  return Type.Union([plain, ...computed], {
    title,
    description: 'the value itself, or a modifier that computes it'
  })
}

const all: ReadonlyArray<readonly [string, Modifier]> = Object.entries(modifiers)

export const NewValue = newValueOf(all.filter(([, { conflict }]) => conflict !== true), 'NewValue')
/** A new value in `on_conflict`, which can use the row proposed for insertion. */
export const ConflictNewValue = newValueOf(
  all.filter(([, { joined }]) => joined !== true),
  'ConflictNewValue'
)
export const NewColumn = newValueOf(
  all.filter(([name]) => ['$col', '$first', '$value'].includes(name)),
  'NewColumn'
)

/** A modifier that joins values, which some types cannot: its SQL checks them. */
export type JoiningName = '$append' | '$merge'

export function isJoining (name: ModifierName): name is JoiningName {
  return name === '$append' || name === '$merge'
}
