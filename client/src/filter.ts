/**
 * Types of `where`: column → { operator: operand, … }. Which operators a column has goes by its
 * type; what is only known as text may be of any type that JSON writes as text: a date, a range, a
 * document.
 */
import type { Json, JsonInput, JsonInputObject } from './json.ts'
import type { Modifier, Reference, ReferenceList, Referred } from './reference.ts'
import type { NumberInput, Numbers, PlainInput } from './values.ts'

/**
 * A filter of a table with the columns of `Row`; all of it must hold. `Columns` is what compares
 * with another column.
 */
export type Filter<Row, Mode extends Numbers, Columns = Modifier<'$col', ColumnPath<Row>>> = {
  readonly [Name in ColumnPath<Row> | 'and' | 'or' | 'not']?: string extends Name
    ? AnyOperators<Columns> | Filter<Row, Mode, Columns> | ReadonlyArray<Filter<Row, Mode, Columns>>
    : Name extends 'and' | 'or' ? ReadonlyArray<Filter<Row, Mode, Columns>>
      : Name extends 'not' ? Filter<Row, Mode, Columns>
        : Name extends keyof Row ? Operators<Row[Name], Mode, Columns>
          : AnyOperators<Columns>
}

/** `on_conflict.index_where`: constants alone. */
export type IndexFilter<Row, Mode extends Numbers> = {
  readonly [Name in (keyof Row & string) | 'and' | 'or' | 'not']?: string extends Name
    ? Constants<JsonInput> | IndexFilter<Row, Mode> | ReadonlyArray<IndexFilter<Row, Mode>>
    : Name extends 'and' | 'or' ? ReadonlyArray<IndexFilter<Row, Mode>>
      : Name extends 'not' ? IndexFilter<Row, Mode>
        : Name extends keyof Row ? Constants<PlainInput<NonNullable<Row[Name]>, Mode>>
          : never
}

/** A column, or a path into one of jsonb: `data->items->0->>sku`. */
export type ColumnPath<Row> = (keyof Row & string) | `${JsonColumn<Row>}->${string}`

/** Columns that may have a path. */
type JsonColumn<Row> = {
  [Name in keyof Row & string]: MayBeObject<Row[Name]> extends true ? Name : never
}[keyof Row & string]

type MayBeObject<T> = unknown extends T ? true
  : Json extends T | null ? true
    : [Exclude<T, null | string | number | bigint | boolean | Date | readonly unknown[]>] extends
      [never] ? false
        : true

/** The operators of a column of type `T`. */
type Operators<T, Mode extends Numbers, Columns> = unknown extends T ? AnyOperators<Columns>
  : KnownOperators<NonNullable<T>, Mode, Columns>

type KnownOperators<T, Mode extends Numbers, Columns> = MayBeObject<T> extends true
  ? JsonOperators<Columns>
  : [T] extends [number | bigint] ? NumberOperators<
      NumberInput<Mode> | Reference<number | null>,
      ReferenceList<number | null>,
      Columns
    >
      : [T] extends [boolean] ? BooleanOperators<
      boolean | Reference<boolean | null>,
      ReferenceList<boolean | null>,
      Columns
    >
          : [T] extends [string | Date] ? TextOperatorsOf<T, Columns>
              : ArrayOperators<PlainInput<T, Mode> | Reference<T | null>, Columns>

type TextOperatorsOf<T, Columns> = string extends T
  ? TextOperators<T | Reference<Referred<T> | null>, ReferenceList<T | null>, Columns>
  : [T] extends [string] ? WordOperators<T | Reference<T | null>, ReferenceList<T | null>, Columns>
      : TextOperators<T | string | Reference<string | null>, ReferenceList<string | null>, Columns>

/** What every column can be asked. */
interface Comparisons<Value, Columns> {
  /** Equal. */
  readonly eq?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Not equal; NULL is neither. */
  readonly neq?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Greater. */
  readonly gt?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Greater or equal. */
  readonly gte?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Less. */
  readonly lt?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Less or equal. */
  readonly lte?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Not equal, where null equals null. */
  readonly isdistinct?: Value | null | Columns | Modifier<'$value'>
}

/** One of several, or every one of them. */
type Quantified<Value> = Modifier<'any', Value> | Modifier<'all', Value>

interface Lists<Value, List, Columns> {
  /** Equal to one of the list. */
  readonly in?: readonly Value[] | List
  /** Equal to none of the list. */
  readonly nin?: readonly Value[] | List
  /** From low to high, both included. */
  readonly between?: readonly [low: Value | Columns, high: Value | Columns]
}

interface Presence {
  /** NULL, or not. */
  readonly is?: null | 'not_null'
}

interface Patterns<Value, Columns> {
  /** SQL pattern, case matters. */
  readonly like?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** SQL pattern, case ignored. */
  readonly ilike?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** POSIX regular expression, case matters. */
  readonly match?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** POSIX regular expression, case ignored. */
  readonly imatch?: Value | Columns | Quantified<Value> | Modifier<'$value'>
}

/** A full text query, alone or with its configuration. */
type Query = string | Reference<string | null> | {
  readonly query: string | Reference<string | null>,
  readonly config?: string
}

interface FullText {
  /** Full text, query with operators: `cake | wine`. */
  readonly fts?: Query
  /** Full text, all of the words. */
  readonly plfts?: Query
  /** Full text, the words in a row. */
  readonly phfts?: Query
  /** Full text, as in a search engine. */
  readonly wfts?: Query
}

interface Containment<Value, Columns> {
  /** Contains (arrays, jsonb, ranges). */
  readonly cs?: Value | Columns | Modifier<'$value'>
  /** Is contained in (arrays, jsonb, ranges). */
  readonly cd?: Value | Columns | Modifier<'$value'>
  /** Overlaps (arrays, ranges). */
  readonly ov?: Value | Columns | Modifier<'$value'>
}

interface Ranges<Value, Columns> {
  /** Range strictly left of. */
  readonly sl?: Value | Columns | Modifier<'$value'>
  /** Range strictly right of. */
  readonly sr?: Value | Columns | Modifier<'$value'>
  /** Range does not extend to the right of. */
  readonly nxr?: Value | Columns | Modifier<'$value'>
  /** Range does not extend to the left of. */
  readonly nxl?: Value | Columns | Modifier<'$value'>
  /** Range is adjacent to. */
  readonly adj?: Value | Columns | Modifier<'$value'>
}

type Key = string | Reference<string | null>

interface Keys {
  /** jsonb has the key. */
  readonly has_key?: Key
  /** jsonb has one of the keys. */
  readonly has_keys_any?: readonly Key[] | ReferenceList<string | null>
  /** jsonb has all of the keys. */
  readonly has_keys_all?: readonly Key[] | ReferenceList<string | null>
}

export interface NumberOperators<Value, List, Columns>
  extends Comparisons<Value, Columns>, Lists<Value, List, Columns>, Presence {
  readonly not?: NumberOperators<Value, List, Columns>
}

export interface BooleanOperators<Value, List, Columns>
  extends Comparisons<Value, Columns>, Lists<Value, List, Columns> {
  /** NULL or not, or its truth. */
  readonly is?: null | 'not_null' | boolean | 'unknown'
  readonly not?: BooleanOperators<Value, List, Columns>
}

/** Of a column with certain words, an enum for instance. */
export interface WordOperators<Value, List, Columns>
  extends Comparisons<Value, Columns>, Lists<Value, List, Columns>, Presence {
  readonly not?: WordOperators<Value, List, Columns>
}

export interface TextOperators<Value, List, Columns>
  extends
  Comparisons<Value, Columns>,
  Lists<Value, List, Columns>,
  Patterns<Value, Columns>,
  FullText,
  Containment<Value, Columns>,
  Ranges<Value, Columns>,
  Presence {
  readonly not?: TextOperators<Value, List, Columns>
}

export interface ArrayOperators<Value, Columns>
  extends Comparisons<Value, Columns>, Containment<Value, Columns>, Presence {
  readonly not?: ArrayOperators<Value, Columns>
}

/**
 * A whole json or jsonb column. A bare string would be read as the text of a JSON value, so one is
 * written `$.value('text')`.
 */
export interface JsonOperators<Columns> extends
  Comparisons<
    JsonInputObject | readonly JsonInput[] | number | bigint | boolean | Reference<unknown>,
    Columns
  >,
  Containment<JsonInput, Columns>,
  Keys,
  Presence {
  readonly not?: JsonOperators<Columns>
}

/** Of a place inside jsonb, and of a column of which nothing is known. */
export interface AnyOperators<Columns>
  extends
  Comparisons<JsonInput, Columns>,
  Lists<JsonInput, ReferenceList<unknown>, Columns>,
  Patterns<JsonInput, Columns>,
  FullText,
  Containment<JsonInput, Columns>,
  Ranges<JsonInput, Columns>,
  Keys {
  /** NULL or not, or the truth of a boolean. */
  readonly is?: null | 'not_null' | boolean | 'unknown'
  readonly not?: AnyOperators<Columns>
}

interface Constants<Value> {
  readonly eq?: Value
  readonly neq?: Value
  readonly gt?: Value
  readonly gte?: Value
  readonly lt?: Value
  readonly lte?: Value
  readonly in?: readonly Value[]
  readonly is?: null | 'not_null' | boolean | 'unknown'
  readonly not?: Constants<Value>
}
