/**
 * `$`: the modifiers of the batch language, which are used instead of values. They are special
 * objects and not JSON, so data that looks like a modifier (`{ "$inc": 1 }`) stays data.
 */
import {
  invalid,
  meaningOf,
  opaque,
  type Modifier,
  type Reference,
  type ReferenceList
} from './reference.ts'

type SourceColumn = Modifier<'$from'>
type NumberOperand = number | bigint | string | Reference<number | null> | SourceColumn

/**
 * Creates computed values for `set`, and operands of filters that are not plain values. `first` is
 * a reference, and `notNull` changes the type of one.
 */
export const $ = {
  /**
   * Adds a number, or seconds to a timestamp; NULL stays NULL. A string of digits is written as a
   * number with all its digits.
   */
  inc: (by: NumberOperand): Modifier<'$inc'> => modifier('$inc', by),
  /** Subtracts a number, or seconds from a timestamp. Strings are written as with `inc`. */
  dec: (by: NumberOperand): Modifier<'$dec'> => modifier('$dec', by),
  /** Multiplies by a number; NULL stays NULL. Strings are written as with `inc`. */
  mul: (by: NumberOperand): Modifier<'$mul'> => modifier('$mul', by),
  /** The start time of the transaction. */
  now: (): Modifier<'$now'> => modifier('$now', true),
  /** The default of the column. In `values`, omit the column instead. */
  default: (): Modifier<'$default'> => modifier('$default', true),
  /**
   * Another column of the row, or a path into its jsonb; in `set` and as an operand. In
   * `insertFrom` a column, path or alias of `from`.
   */
  col: <const Column extends string>(column: Column): Modifier<'$col', Column> =>
    modifier('$col', column),
  /** A column, path or alias of `from`; in `set`, as an operand of the others, and in `where`. */
  from: <const Column extends string>(column: Column): Modifier<'$from', Column> =>
    modifier('$from', column),
  /** A column of the row that could not be inserted; only in `on_conflict`. */
  excluded: <const Column extends string>(column: Column): Modifier<'$excluded', Column> =>
    modifier('$excluded', column),
  /** Sets these members of a jsonb object; NULL counts as an empty object. */
  merge: (members: object): Modifier<'$merge'> => modifier('$merge', members),
  /** Appends elements to an array or a jsonb array; NULL counts as an empty array. */
  append: (
    elements: readonly unknown[] | Reference<unknown> | ReferenceList<unknown> | SourceColumn
  ): Modifier<'$append'> => modifier('$append', elements),
  /** Removes a key from a jsonb object. */
  remove: (key: string | Reference<string | null>): Modifier<'$remove'> => modifier('$remove', key),
  /** JSON as it is, also where a bare string would be parsed as JSON text. */
  value: (json: unknown): Modifier<'$value'> => modifier('$value', json),
  /** Matches at least one operand of a list: `{ like: $.any(['a%', 'b%']) }`. */
  any: <const Value>(list: readonly Value[] | ReferenceList<Value>): Modifier<'any', Value> =>
    modifier('any', list),
  /** Matches all operands of a list. */
  all: <const Value>(list: readonly Value[] | ReferenceList<Value>): Modifier<'all', Value> =>
    modifier('all', list),
  first,
  notNull
} as const

/**
 * The first of these references whose row exists, used like a reference:
 * `$.first(found.row().id, created.row().id)`. If none exists, the batch fails.
 */
function first<T> (
  ...references: readonly [Reference<T>, ...ReadonlyArray<Reference<T>>]
): Reference<T> {
  const meanings = references.map(reference => meaningOf(reference))
  const valid = meanings.filter(meaning => meaning?.kind === 'reference')
  if (valid.length < Math.max(1, meanings.length)) {
    throw invalid('$.first() expects references: $.first(found.row().id, created.row().id).')
  }
  return opaque({ kind: 'first', references: valid }) as Reference<T>
}

/**
 * States that a reference is not NULL, for example to the maximum of a table with rows. Only its
 * type changes. If the value is NULL after all, it is written as NULL.
 */
function notNull<T> (reference: Reference<T>): Reference<NonNullable<T>>
function notNull<T> (list: ReferenceList<T>): ReferenceList<NonNullable<T>>
function notNull (reference: unknown): unknown {
  return reference
}

function modifier<Word extends string, Operand> (
  word: Word,
  operand: unknown
): Modifier<Word, Operand> {
  return opaque({ kind: 'modifier', word, operand }) as Modifier<Word, Operand>
}
