/**
 * Types of column values, in results and as input. The types of numbers depend on the client's
 * `numbers` option.
 */
import type { Json, JsonInput } from './json.ts'
import type { Modifier, Reference, Referred, ReferenceList } from './reference.ts'

/** The type of numbers: JavaScript numbers, or bigints for integers and strings for others. */
export type Numbers = 'number' | 'bigint'

/** A row of a result. */
export type ResultRow<Row, Mode extends Numbers> =
  & { [Column in keyof Row]: ResultValue<Row[Column], Mode> }
  & {}

/** A value of a result. */
export type ResultValue<T, Mode extends Numbers> = unknown extends T ? T
  : Mode extends 'number' ? T extends bigint ? number : T
    : Json extends T ? T | bigint
      : ExactValue<T>

type ExactValue<T> = T extends number ? bigint | string
  : T extends ReadonlyArray<infer Item>
    ? [Item] extends [number | bigint | null]
        ? Array<number | bigint | string | Extract<Item, null>>
        : T
    : T

/** The input for a value of type `T`: a value, or a reference to one. */
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

/** The column if it can be written. Generators use `never` for columns that cannot. */
type Writable<Columns, Column extends keyof Columns> = [Exclude<Columns[Column], undefined>] extends
[never] ? never : Column

/**
 * `set`: new or computed values by column. `Columns` are the columns of the row, and `Others` are
 * modifiers that name a column of another row.
 */
export type SetValues<
  Update,
  Mode extends Numbers,
  Columns extends string,
  Others = never
> =
  & {
    [Column in keyof Update as Writable<Update, Column>]?:
      | Input<Exclude<Update[Column], undefined>, Mode>
      | Computed<Exclude<Update[Column], undefined>, Columns>
      | Others
  }
  & {}

/** `columns` of an insert whose rows come from a query: values, or columns of the query. */
export type QueryValues<Insert, Mode extends Numbers> =
  & {
    [Column in keyof Insert as Writable<Insert, Column>]:
      | Input<Exclude<Insert[Column], undefined>, Mode>
      | Modifier<'$col', string>
      | Modifier<'$value'>
  }
  & {}

/**
 * Input that is not itself a reference, but may contain references. A string may be a timestamp, so
 * it can be written as a Date.
 */
export type PlainInput<T, Mode extends Numbers> = T extends number | bigint ? NumberInput<Mode>
  : T extends Date ? string | Date
    : T extends string ? string extends T ? string | Date : T
      : T extends boolean | null | undefined ? T
        : T extends ReadonlyArray<infer Item>
          ? ReadonlyArray<Input<Item, Mode>> | ReferenceList<Referred<Item>>
          : { readonly [Key in keyof T]: Input<T[Key], Mode> }

/** A number as input. Numbers that were read as strings can be written as strings. */
export type NumberInput<Mode extends Numbers> = Mode extends 'bigint' ? number | bigint | string
  : number | bigint

type Computed<T, Columns extends string> =
  | Modifier<'$col', Columns>
  | Modifier<'$default'>
  | Modifier<'$value'>
  | Modifier<ModifiersOf<T>>

/** The modifiers of a column. A string may be a timestamp, so it has those of timestamps. */
type ModifiersOf<T> = unknown extends T
  ? '$inc' | '$dec' | '$mul' | '$now' | '$merge' | '$append' | '$remove'
  : T extends number | bigint ? '$inc' | '$dec' | '$mul'
    : T extends string | Date ? '$inc' | '$dec' | '$now'
      : T extends boolean | null ? never
        : T extends readonly unknown[] ? '$append'
          : '$merge' | '$append' | '$remove'
