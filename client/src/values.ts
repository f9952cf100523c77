/**
 * Types of values: what is answered for a column, and what may be written where its value goes.
 * Numbers go by what the client reads them as.
 */
import type { Json, JsonInput } from './json.ts'
import type { Modifier, Reference, Referred, ReferenceList } from './reference.ts'

/**
 * What numbers are read as: JavaScript's own, or integers as bigint and all others as their text.
 */
export type Numbers = 'number' | 'bigint'

/** A row as it is answered. */
export type AnsweredRow<Row, Mode extends Numbers> =
  & { [Column in keyof Row]: Answered<Row[Column], Mode> }
  & {}

/** A value as it is answered. */
export type Answered<T, Mode extends Numbers> = unknown extends T ? T
  : Mode extends 'number' ? T extends bigint ? number : T
    : Json extends T ? T | bigint
      : AnsweredExactly<T>

type AnsweredExactly<T> = T extends number ? bigint | string
  : T extends ReadonlyArray<infer Item>
    ? [Item] extends [number | bigint | null]
        ? Array<number | bigint | string | Extract<Item, null>>
        : T
    : T

/** What may be written where a value of type `T` goes: a value, or a reference to one. */
export type Input<T, Mode extends Numbers> = unknown extends T ? unknown
  : Json extends T ? JsonInput
    : PlainInput<T, Mode> | Reference<Referred<T>>

/** A row of `values`. */
export type InputRow<Insert, Mode extends Numbers> =
  & {
    [Column in keyof Insert as Writable<Insert, Column>]: Input<
      Exclude<Insert[Column], undefined>,
      Mode
    >
  }
  & {}

/** A column that can be written; generators have `never` for one that cannot. */
type Writable<Columns, Column extends keyof Columns> = [Exclude<Columns[Column], undefined>] extends
[never] ? never : Column

/**
 * `set`: a value for each column that changes, or what computes one. `Columns` are those of the
 * row, `Excluded` those of the row that was to be inserted.
 */
export type SetValues<
  Update,
  Mode extends Numbers,
  Columns extends string,
  Excluded extends string = never
> =
  & {
    [Column in keyof Update as Writable<Update, Column>]?:
      | Input<Exclude<Update[Column], undefined>, Mode>
      | Computed<Exclude<Update[Column], undefined>, Columns>
      | ([Excluded] extends [never] ? never
        : Modifier<'$excluded', Excluded>)
  }
  & {}

/** A value without references to it as a whole. */
export type PlainInput<T, Mode extends Numbers> = T extends number | bigint ? NumberInput<Mode>
  : T extends string | boolean | null | undefined | Date ? T
    : T extends ReadonlyArray<infer Item>
      ? ReadonlyArray<Input<Item, Mode>> | ReferenceList<Referred<Item>>
      : { readonly [Key in keyof T]: Input<T[Key], Mode> }

/** Digits that were read as text can be written as text. */
export type NumberInput<Mode extends Numbers> = Mode extends 'bigint' ? number | bigint | string
  : number | bigint

type Computed<T, Columns extends string> =
  | Modifier<'$col', Columns>
  | Modifier<'$default'>
  | Modifier<'$value'>
  | Modifier<ModifiersOf<T>>

/** Modifiers that have a meaning for a column: of a text they may be those of a timestamp. */
type ModifiersOf<T> = unknown extends T
  ? '$inc' | '$mul' | '$now' | '$merge' | '$append' | '$remove'
  : T extends number | bigint ? '$inc' | '$mul'
    : T extends string | Date ? '$inc' | '$now'
      : T extends boolean | null ? never
        : T extends readonly unknown[] ? '$append'
          : '$merge' | '$append' | '$remove'
