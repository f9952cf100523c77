/**
 * Types of `where`: `{ column: { operator: operand } }`. The type of a column decides which
 * operators it has. A column of type string has the operators of all types that JSON writes as
 * text: dates, ranges, documents and others. It can be compared with a Date.
 */
import type { Json, JsonInput, JsonInputObject } from './json.ts'
import type { Modifier, Reference, ReferenceList, Referred } from './reference.ts'
import type { NumberInput, Numbers, PlainInput } from './values.ts'

/**
 * A filter of a table with the columns of `Row`. All conditions must hold. `Tables` has the rows of
 * every table, and `Columns` is the type of operands that name another column. Members can be
 * assigned, so that a program can build a filter step by step.
 */
export type Filter<
  Row,
  Mode extends Numbers,
  Tables,
  Columns = Modifier<'$col', ColumnPath<Row>>
> = {
  [Name in ColumnPath<Row> | 'and' | 'or' | 'not' | 'exists' | 'not_exists']?: string extends Name
    ?
      | AnyOperators<Columns>
      | Filter<Row, Mode, Tables, Columns>
      | ReadonlyArray<Filter<Row, Mode, Tables, Columns>>
      | Exists<Row, Mode, Tables>
    : Name extends 'and' | 'or' ? ReadonlyArray<Filter<Row, Mode, Tables, Columns>>
      : Name extends 'not' ? Filter<Row, Mode, Tables, Columns>
        : Name extends 'exists' | 'not_exists' ? Exists<Row, Mode, Tables>
          : Name extends keyof Row ? Operators<Row[Name], Mode, Columns>
            : AnyOperators<Columns>
}

/** Rows of another table. `on`: column of that table → column of this one, all equal. */
export type Exists<Row, Mode extends Numbers, Tables> = {
  [Table in keyof Tables & string]: {
    readonly table: Table,
    readonly on: { readonly [Column in keyof Tables[Table] & string]?: keyof Row & string },
    readonly where?: Filter<Tables[Table], Mode, Tables>
  }
}[keyof Tables & string]

/** `on_conflict.index_where`: a filter with only constants. */
export type IndexFilter<Row, Mode extends Numbers> = {
  readonly [Name in (keyof Row & string) | 'and' | 'or' | 'not']?: string extends Name
    ? Constants<JsonInput> | IndexFilter<Row, Mode> | ReadonlyArray<IndexFilter<Row, Mode>>
    : Name extends 'and' | 'or' ? ReadonlyArray<IndexFilter<Row, Mode>>
      : Name extends 'not' ? IndexFilter<Row, Mode>
        : Name extends keyof Row ? Constants<PlainInput<NonNullable<Row[Name]>, Mode>>
          : never
}

/** A column, or a path into JSON, an array or a composite: `data->items->0->>sku`. */
export type ColumnPath<Row> = (keyof Row & string) | `${PathColumn<Row>}->${string}`

type PathColumn<Row> = {
  [Name in keyof Row & string]: HasPath<Row[Name]> extends true ? Name : never
}[keyof Row & string]

type HasPath<T> = MayBeObject<T> extends true ? true
  : [Extract<T, readonly unknown[]>] extends [never] ? false
      : true

type MayBeObject<T> = unknown extends T ? true
  : Json extends T | null ? true
    : [Exclude<T, null | string | number | bigint | boolean | Date | readonly unknown[]>] extends
      [never] ? false
        : true

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
  : [T] extends [string] ? EnumOperators<T | Reference<T | null>, ReferenceList<T | null>, Columns>
      : TextOperators<T | string | Reference<string | null>, ReferenceList<string | null>, Columns>

interface Comparisons<Value, Columns> {
  /** Equal. */
  eq?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Not equal; no match if either side is NULL. */
  neq?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Greater. */
  gt?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Greater or equal. */
  gte?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Less. */
  lt?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Less or equal. */
  lte?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** Not equal, with NULL equal to NULL. */
  isdistinct?: Value | null | Columns | Modifier<'$value'>
}

/** `$.any` or `$.all` of a list of operands. */
type Quantified<Value> = Modifier<'any', Value> | Modifier<'all', Value>

interface Lists<Value, List, Columns> {
  /** Equal to one of the list. */
  in?: readonly Value[] | List
  /** Equal to none of the list. */
  nin?: readonly Value[] | List
  /** From low to high, both included. */
  between?: readonly [low: Value | Columns, high: Value | Columns]
}

interface Presence {
  /** NULL or not NULL. */
  is?: null | 'not_null'
}

interface Patterns<Value, Columns> {
  /** SQL pattern, case-sensitive. */
  like?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** SQL pattern, case-insensitive. */
  ilike?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** POSIX regular expression, case-sensitive. */
  match?: Value | Columns | Quantified<Value> | Modifier<'$value'>
  /** POSIX regular expression, case-insensitive. */
  imatch?: Value | Columns | Quantified<Value> | Modifier<'$value'>
}

/** A full-text query, optionally with its configuration. */
type Query = string | Reference<string | null> | {
  readonly query: string | Reference<string | null>,
  config?: string
}

interface FullText {
  /** Full-text search with operators: `cake | wine`. */
  fts?: Query
  /** Full-text search for all of the words. */
  plfts?: Query
  /** Full-text search for the phrase. */
  phfts?: Query
  /** Full-text search with the syntax of a search engine. */
  wfts?: Query
}

interface Containment<Value, Columns> {
  /** Contains (arrays, jsonb, ranges). */
  cs?: Value | Columns | Modifier<'$value'>
  /** Is contained in (arrays, jsonb, ranges). */
  cd?: Value | Columns | Modifier<'$value'>
  /** Overlaps (arrays, ranges). */
  ov?: Value | Columns | Modifier<'$value'>
}

interface Ranges<Value, Columns> {
  /** The range is strictly left of the operand. */
  sl?: Value | Columns | Modifier<'$value'>
  /** The range is strictly right of the operand. */
  sr?: Value | Columns | Modifier<'$value'>
  /** The range does not extend to the right of the operand. */
  nxr?: Value | Columns | Modifier<'$value'>
  /** The range does not extend to the left of the operand. */
  nxl?: Value | Columns | Modifier<'$value'>
  /** The range is adjacent to the operand. */
  adj?: Value | Columns | Modifier<'$value'>
}

type Key = string | Reference<string | null>

interface Keys {
  /** The jsonb object has the key. */
  has_key?: Key
  /** The jsonb object has one of the keys. */
  has_keys_any?: readonly Key[] | ReferenceList<string | null>
  /** The jsonb object has all of the keys. */
  has_keys_all?: readonly Key[] | ReferenceList<string | null>
}

export interface NumberOperators<Value, List, Columns>
  extends Comparisons<Value, Columns>, Lists<Value, List, Columns>, Presence {
  not?: NumberOperators<Value, List, Columns>
}

export interface BooleanOperators<Value, List, Columns>
  extends Comparisons<Value, Columns>, Lists<Value, List, Columns> {
  /** NULL, not NULL, or a truth value. */
  is?: null | 'not_null' | boolean | 'unknown'
  not?: BooleanOperators<Value, List, Columns>
}

/** Operators of a column whose type is a union of strings, for example an enum. */
export interface EnumOperators<Value, List, Columns>
  extends Comparisons<Value, Columns>, Lists<Value, List, Columns>, Presence {
  not?: EnumOperators<Value, List, Columns>
}

export interface TextOperators<Value, List, Columns>
  extends
  Comparisons<Value | Date, Columns>,
  Lists<Value | Date, List, Columns>,
  Patterns<Value, Columns>,
  FullText,
  Containment<Value, Columns>,
  Ranges<Value, Columns>,
  Presence {
  not?: TextOperators<Value, List, Columns>
}

export interface ArrayOperators<Value, Columns>
  extends Comparisons<Value, Columns>, Containment<Value, Columns>, Presence {
  not?: ArrayOperators<Value, Columns>
}

/**
 * Operators of a whole json or jsonb column. A bare string would be parsed as JSON text, so write
 * a JSON string as `$.value('text')`.
 */
export interface JsonOperators<Columns> extends
  Comparisons<
    JsonInputObject | readonly JsonInput[] | number | bigint | boolean | Reference<unknown>,
    Columns
  >,
  FullText,
  Containment<JsonInput, Columns>,
  Keys,
  Presence {
  not?: JsonOperators<Columns>
}

/** Operators of a path into jsonb, and of a column of unknown type. */
export interface AnyOperators<Columns>
  extends
  Comparisons<JsonInput, Columns>,
  Lists<JsonInput, ReferenceList<unknown>, Columns>,
  Patterns<JsonInput, Columns>,
  FullText,
  Containment<JsonInput, Columns>,
  Ranges<JsonInput, Columns>,
  Keys {
  /** NULL, not NULL, or a truth value of a boolean. */
  is?: null | 'not_null' | boolean | 'unknown'
  not?: AnyOperators<Columns>
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
