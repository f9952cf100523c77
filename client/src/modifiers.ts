/**
 * `$`: the words of the batch language that stand where a value would stand. They are objects of
 * their own and no JSON, so data that looks like one of them (`{ "$inc": 1 }`) stays data.
 */
import { opaque, type Modifier, type Reference, type ReferenceList } from './reference.ts'

/** Computes new values in `set`, and says in filters what is more than a value. */
export const $ = {
  /**
   * Adds a number; NULL stays NULL. To a timestamp it adds seconds. A string of digits is written
   * as the number it is.
   */
  inc: (by: number | bigint | string | Reference<number | null>): Modifier<'$inc'> =>
    modifier('$inc', by),
  /** Multiplies by a number; NULL stays NULL. A string of digits is written as the number it is. */
  mul: (by: number | bigint | string | Reference<number | null>): Modifier<'$mul'> =>
    modifier('$mul', by),
  /** The time at which the transaction began. */
  now: (): Modifier<'$now'> => modifier('$now', true),
  /** The default of the column. */
  default: (): Modifier<'$default'> => modifier('$default', true),
  /** Another column of the row as it is, or a path into its jsonb; in `set` and as an operand. */
  col: <const Column extends string>(column: Column): Modifier<'$col', Column> =>
    modifier('$col', column),
  /** A column of the row that was to be inserted; in `on_conflict` alone. */
  excluded: <const Column extends string>(column: Column): Modifier<'$excluded', Column> =>
    modifier('$excluded', column),
  /** Sets these members of a jsonb object; NULL counts as empty. */
  merge: (members: object): Modifier<'$merge'> => modifier('$merge', members),
  /** Adds these elements to an array or a jsonb array; NULL counts as empty. */
  append: (
    elements: readonly unknown[] | Reference<unknown> | ReferenceList<unknown>
  ): Modifier<'$append'> => modifier('$append', elements),
  /** Takes a key out of a jsonb object. */
  remove: (key: string | Reference<string | null>): Modifier<'$remove'> => modifier('$remove', key),
  /** Any JSON as it is, also where a bare string would be read as the text of a JSON value. */
  value: (json: unknown): Modifier<'$value'> => modifier('$value', json),
  /** An operand that is met by one of a list: `{ like: $.any(['a%', 'b%']) }`. */
  any: <const Value>(list: readonly Value[] | ReferenceList<Value>): Modifier<'any', Value> =>
    modifier('any', list),
  /** An operand that is met by all of a list. */
  all: <const Value>(list: readonly Value[] | ReferenceList<Value>): Modifier<'all', Value> =>
    modifier('all', list)
} as const

function modifier<Word extends string, Operand> (
  word: Word,
  operand: unknown
): Modifier<Word, Operand> {
  return opaque({ kind: 'modifier', word, operand }) as Modifier<Word, Operand>
}
