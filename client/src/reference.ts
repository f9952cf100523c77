/**
 * References and modifiers as values: what stands for something that only the database knows. They
 * are objects that nothing but this file can make, so no data, wherever it comes from, can pass for
 * one.
 */
import { OneflightError } from './error.ts'

declare const referred: unique symbol
declare const listed: unique symbol
declare const kind: unique symbol
declare const operand: unique symbol

/** Stands for one value of type `T` that an earlier operation of the batch answers. */
export interface Reference<out T> {
  readonly [referred]: T
}

/**
 * Stands for the values of one column in all rows that an earlier operation of the batch answers.
 */
export interface ReferenceList<out T> {
  readonly [listed]: T
}

/**
 * Stands for one row: its properties are references to its columns, it itself is the whole row as
 * JSON.
 */
export type RowReference<Row> =
  & { readonly [Column in Referable<Row>]: Reference<Referred<Row[Column]>> }
  & Reference<Row>

/** Lists of values by column. */
export type RowsReference<Row> = {
  readonly [Column in Referable<Row>]: ReferenceList<Referred<Row[Column]>>
}

/** A number is a number to a reference: the database hands it over, with all its digits. */
export type Referred<T> = T extends bigint ? number : T

/** A column whose name has a dot cannot be referred to. */
type Referable<Row> = keyof Row extends infer Name
  ? Name extends `${string}.${string}` | symbol ? never : Name & keyof Row
  : never

/** A new value that the database computes, or an operand that is more than a value; made by `$`. */
export interface Modifier<out Word extends string, out Operand = unknown> {
  readonly [kind]: Word
  readonly [operand]: Operand
}

/** What is referred to. Its id is known when the whole batch is. */
export interface Source {
  id: string | undefined
}

/** What an object stands for. `operation` and `rows` are no values. */
export type Meaning =
  | { readonly kind: 'reference', readonly to: Source, readonly tail: string }
  | { readonly kind: 'modifier', readonly word: string, readonly operand: unknown }
  | { readonly kind: 'operation', readonly source: Source }
  | { readonly kind: 'rows' }

const meanings = new WeakMap<object, Meaning>()

/** What `value` stands for; undefined when it is data. */
export function meaningOf (value: unknown): Meaning | undefined {
  return Object(value) === value ? meanings.get(value as object) : undefined
}

/**
 * An object that stands for something. Made into text by anybody but the client it would silently
 * be another thing, so that throws.
 */
export function opaque (meaning: Meaning): object {
  const made = { toJSON: unreadable, [Symbol.toPrimitive]: unreadable }
  meanings.set(made, meaning)
  return made
}

/** The row `index` of what `to` answers. Throws when it is no number of a row. */
export function referRow (to: Source, index: number): object {
  if (!Number.isSafeInteger(index) || index < 0) {
    throw invalid(`row takes the number of a row, counted from 0, and not ${String(index)}.`)
  }
  const refer = (tail: string): object => opaque({ kind: 'reference', to, tail })
  return withColumns(refer(`.${index}`), name => refer(`.${index}.${name}`))
}

/** The columns of all rows that `to` answers, as lists. */
export function referRows (to: Source): object {
  return withColumns(
    opaque({ kind: 'rows' }),
    name => opaque({ kind: 'reference', to, tail: `.*.${name}` })
  )
}

/** `base` with a property for every column there may be. */
function withColumns (base: object, refer: (name: string) => object): object {
  const made = new Proxy(base, {
    get (target, name) {
      if (typeof name === 'symbol') return Reflect.get(target, name) as unknown
      if (name.includes('.')) {
        throw invalid(
          `The column "${name}" cannot be referred to, for its name has a dot; "as" ` +
            'answers it under another one.'
        )
      }
      return refer(name)
    }
  })
  meanings.set(made, meanings.get(base) as Meaning)
  return made
}

function unreadable (): never {
  throw invalid(
    'What stands for a value of the database has none before the batch is run, and cannot ' +
      'be part of a text. Use it as a value of its own.'
  )
}

/** The error of a batch that cannot be written. */
export function invalid (message: string): OneflightError {
  return new OneflightError({ code: 'batch_invalid', message })
}
