/**
 * References and modifiers: objects that represent values which only the database knows. Only this
 * file can create them, so no data can be mistaken for one.
 */
import { OneflightError } from './error.ts'

declare const referred: unique symbol
declare const listed: unique symbol
declare const kind: unique symbol
declare const operand: unique symbol

/** Refers to one value of type `T` in the rows of an earlier operation of the batch. */
export interface Reference<out T> {
  readonly [referred]: { readonly value: T }
}

/** Refers to the values of one column in all rows of an earlier operation of the batch. */
export interface ReferenceList<out T> {
  readonly [listed]: T
}

/**
 * Refers to one row. Its properties refer to the columns of the row. As a value it is the whole row
 * as JSON.
 */
export type RowReference<Row> =
  & { readonly [Column in Referable<Row>]: Reference<Referred<Row[Column]>> }
  & Reference<Row>

/** References to lists of values, by column. */
export type RowsReference<Row> = {
  readonly [Column in Referable<Row>]: ReferenceList<Referred<Row[Column]>>
}

/**
 * The type of a reference to a column. Bigints count as numbers, because the database passes on all
 * digits. Dates are strings.
 */
export type Referred<T> = T extends bigint ? number : T extends Date ? string : T

/** The columns that references support: those without a dot in their name. */
type Referable<Row> = keyof Row extends infer Name
  ? Name extends `${string}.${string}` | symbol ? never : Name & keyof Row
  : never

/** A value that the database computes, or an operand that is not a plain value. `$` creates it. */
export interface Modifier<out Word extends string, out Operand = unknown> {
  readonly [kind]: Word
  readonly [operand]: Operand
  /** Makes the compiler print the text if a modifier is used where only references are allowed. */
  readonly [referred]: {
    readonly message:
    'Modifiers are for set and filters. In values, omit a column to use its default.'
  }
}

/** The operation that a reference points to. Its id is set when the batch is complete. */
export interface Source {
  id: string | undefined
}

/** The meaning of a special object. `operation` and `rows` cannot be used as values. */
export type Meaning =
  | { readonly kind: 'reference', readonly to: Source, readonly tail: string }
  | { readonly kind: 'first', readonly references: readonly Meaning[] }
  | { readonly kind: 'modifier', readonly word: string, readonly operand: unknown }
  | { readonly kind: 'operation', readonly source: Source }
  | { readonly kind: 'rows' }

const meanings = new WeakMap<object, Meaning>()

/** Returns the meaning of a special object; undefined for data. */
export function meaningOf (value: unknown): Meaning | undefined {
  return Object(value) === value ? meanings.get(value as object) : undefined
}

/**
 * Creates a special object. Converting it to a string or to JSON throws, because the result would
 * silently be other data.
 */
export function opaque (meaning: Meaning): object {
  const object = { toJSON: rejectConversion, [Symbol.toPrimitive]: rejectConversion }
  meanings.set(object, meaning)
  return object
}

/** Creates a reference to a row of `to`. Throws if `index` is not a row index. */
export function referRow (to: Source, index: number): object {
  if (!Number.isSafeInteger(index) || index < 0) {
    throw invalid(`row() expects a row index (0, 1, 2, …), not ${String(index)}.`)
  }
  const refer = (tail: string): object => opaque({ kind: 'reference', to, tail })
  return withColumns(refer(`.${index}`), name => refer(`.${index}.${name}`))
}

/** Creates references to the columns of all rows of `to`, as lists. */
export function referRows (to: Source): object {
  return withColumns(
    opaque({ kind: 'rows' }),
    name => opaque({ kind: 'reference', to, tail: `.*.${name}` })
  )
}

/** Returns `base` with a property for any column name. */
function withColumns (base: object, refer: (name: string) => object): object {
  const proxy = new Proxy(base, {
    get (target, name) {
      if (typeof name === 'symbol') return Reflect.get(target, name) as unknown
      if (name.includes('.')) {
        throw invalid(
          `References do not support the column "${name}" because its name contains a dot. ` +
            'Rename it in the result with "as".'
        )
      }
      return refer(name)
    }
  })
  meanings.set(proxy, meanings.get(base) as Meaning)
  return proxy
}

function rejectConversion (): never {
  throw invalid(
    'An operation, reference or modifier cannot be converted to a string or to JSON, because ' +
      'only the database knows its value. Use it as a whole value.'
  )
}

export function invalid (message: string): OneflightError {
  return new OneflightError({ code: 'batch_invalid', message })
}
