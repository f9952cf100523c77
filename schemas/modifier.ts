/**
 * The grammar of computed values in `set`: an object with exactly one key that begins with `$`. One
 * row of `modifiers` is all that a modifier needs. The words of schemas beside TypeBox's own are
 * those of filter.ts.
 */
import { Type, type TSchema } from '@sinclair/typebox'
import { referenceAttempt, special, type ReferenceKind } from './filter.ts'

/**
 * `sql` has holes for the column as it is, for the operand, for what is `empty` in the type of the
 * column and for what fails with the marker `value` when it is `refused`; `conflict`: allowed only
 * in `on_conflict`.
 */
export interface Modifier {
  readonly operand: TSchema
  /** The operand in words. */
  readonly takes: string
  /**
   * How the operand is read: in the type of the column or of the difference of two of its values,
   * as text, as the name of a column, or not at all.
   */
  readonly reads: 'value' | 'difference' | 'json' | 'text' | 'column' | 'nothing'
  readonly sql: string
  readonly meaning: string
  /** JSON in the place of NULL. */
  readonly empty?: string
  readonly conflict?: boolean
}

const referenceTo = (reference: ReferenceKind) =>
  Type.String({ reference, pattern: referenceAttempt.source, expected: 'a reference' })
const number = Type.Union([Type.Number(), referenceTo('value')])
const anything = Type.Unknown({ reference: 'any' })
const path = Type.String({ name: 'path' })
const yes = Type.Literal(true)

// Whether a value may be computed depends on the type of the column, and no operator tells arrays
// apart, because json[] has none; the name of a type does. CASE takes a domain for its base type,
// and a branch that is never run tells a type without computing anything.
const type = 'pg_typeof(case when false then <column> end)'
const isJsonb = `${type}::oid = 3802`
const current = 'coalesce(<column>, <empty>)'
// Read as jsonb also where it is not, because the statement must be valid for every type.
const kindOf = (value: string): string => `jsonb_typeof(to_jsonb(${value}))`
// A type that has no such operator fails before anything is evaluated: marker.ts reads in the
// statement which modifier of which column the error is about.
const joined = (name: string, operand: string): string =>
  `${current} operator(pg_catalog.||) /* ${name} */` +
  ` case when false then <column> else ${operand} end`

// Only objects, on both sides: jsonb || would make an array of anything else.
const added = 'coalesce(<operand>, <empty>)'
const mergeSql = `case when case when ${isJsonb} and ${kindOf(current)} = 'object' and` +
  ` ${kindOf(added)} = 'object' then true else <refused> is null end` +
  ` then ${joined('$merge', added)} end`
// The current value must be an array, or jsonb that holds one: texts have || too, and jsonb ||
// would make an array of anything else.
const appendSql = `case when case when ${type}::text like '%[]' then true` +
  ` when ${isJsonb} and ${kindOf(current)} = 'array' then true else <refused> is null end` +
  ` then coalesce(${joined('$append', '<operand>')}, ${current}) end`

export const modifiers = {
  $inc: {
    operand: number,
    takes: 'a number or a reference',
    reads: 'difference',
    sql: '<column> + <operand>',
    meaning: 'adds a number, to a date as days; NULL stays NULL'
  },
  $mul: {
    operand: number,
    takes: 'a number or a reference',
    reads: 'value',
    sql: '<column> * <operand>',
    meaning: 'multiplies by a number; NULL stays NULL'
  },
  $now: {
    operand: yes,
    takes: '`true`',
    reads: 'nothing',
    sql: 'now()',
    meaning: 'the time at which the transaction began'
  },
  $default: {
    operand: yes,
    takes: '`true`',
    reads: 'nothing',
    sql: 'default',
    meaning: 'the default of the column'
  },
  $col: {
    operand: path,
    takes: 'a column',
    reads: 'column',
    sql: '<operand>',
    meaning: 'a column of the row as it is'
  },
  $excluded: {
    operand: path,
    takes: 'a column',
    reads: 'column',
    sql: '<operand>',
    meaning: 'a column of the row that was to be inserted',
    conflict: true
  },
  $merge: {
    operand: Type.Union([Type.Record(Type.String(), anything), referenceTo('value')]),
    takes: 'an object or a reference',
    reads: 'json',
    sql: mergeSql,
    empty: '{}',
    meaning: 'sets these members of a jsonb object; NULL counts as empty, anything but an object ' +
      'is refused'
  },
  $append: {
    operand: Type.Union([Type.Array(anything), referenceTo('any')]),
    takes: 'an array or a reference',
    reads: 'json',
    sql: appendSql,
    empty: '[]',
    meaning: 'adds these elements to an array or a jsonb array; NULL counts as empty, ' +
      'anything else is refused'
  },
  $remove: {
    operand: Type.String({ reference: 'value' }),
    takes: 'a key, as a string or a reference',
    reads: 'text',
    sql: 'coalesce(<column> - <operand>, <column>)',
    meaning: 'takes a key out of a jsonb object'
  },
  $value: {
    operand: anything,
    takes: 'any JSON',
    reads: 'json',
    sql: '<operand>',
    meaning: 'the JSON itself, whatever it looks like'
  }
} as const satisfies Record<string, Modifier>

export type ModifierName = keyof typeof modifiers

const plain = Type.Unknown({
  not: special,
  title: 'PlainValue',
  description: 'any JSON: the value itself. Strings in it may be references'
})

/**
 * A new value as the description of the API has it; what is checked are the modifiers, each by its
 * row.
 */
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

/** What `set` of an update gives a column. */
export const NewValue = newValueOf(all.filter(([, { conflict }]) => conflict !== true), 'NewValue')
/** The same in `on_conflict`, where the row that was to be inserted can be looked at. */
export const ConflictNewValue = newValueOf(all, 'ConflictNewValue')
