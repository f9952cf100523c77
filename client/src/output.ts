/**
 * Types of the rows that an operation returns. `columns` and `returning` determine the columns of a
 * row, and `expect` the number of rows.
 */
import type { ColumnPath } from './filter.ts'
import type { Json } from './json.ts'

/** A column to return, under its own name or another one; `'*'`: all columns of the table. */
export type Output<Row> = '*' | ColumnPath<Row> | {
  readonly column: ColumnPath<Row>,
  /** The type that the value is converted to. */
  readonly cast?: Cast,
  readonly as?: string
}

/** The types that a value can be converted to. */
export type Cast = keyof CastTypes

interface CastTypes {
  text: string | null
  int: number | null
  bigint: bigint | null
  numeric: number | null
  float8: number | null
  boolean: boolean | null
  date: string | null
  time: string | null
  timestamp: string | null
  timestamptz: string | null
  interval: string | null
  uuid: string | null
  json: Json
  jsonb: Json
}

/** What an insert returns. Beside `on_conflict`, `inserted` tells whether the row is new. */
export type InsertOutput<Row> = Output<Row> | { readonly fn: 'inserted', readonly as?: string }

/** A column or an aggregate to return. */
export type SelectOutput<Row> = Output<Row> | Aggregate<Row>

/** `count` without a column counts rows. */
export type Aggregate<Row> =
  | { readonly fn: 'count', readonly as?: string }
  | {
    readonly fn: 'count' | 'sum' | 'avg' | 'min' | 'max',
    readonly column: ColumnPath<Row>,
    /** The type that the values are converted to before they are aggregated. */
    readonly cast?: Cast,
    /** Each value counts once. */
    readonly distinct?: true,
    readonly as?: string
  }

/** How many rows an operation must affect or return. */
export type Expect = number | { readonly min?: number, readonly max?: number }

/** The row with the columns `Outputs`; by default the whole row. */
export type OutputRow<Row, Outputs> = Outputs extends readonly unknown[]
  ? [Extract<Outputs[number], '*'>] extends [never] ? NamedColumns<Row, Outputs[number]>
      : Flat<Row & NamedColumns<Row, Exclude<Outputs[number], '*'>>>
  : Row

type NamedColumns<Row, Elements> =
  & { [Element in Elements as NameOf<Element>]: TypeOf<Row, Element> }
  & {}

type Flat<Members> = { [Name in keyof Members]: Members[Name] } & {}

/** Rows, with the number that `Expected` states. */
export type Rows<Row, Expected> = [Expected] extends [1] ? [Row]
  : [Expected] extends [0] ? []
      : [Expected] extends [{ readonly min: infer Min }]
          ? number extends Min ? Row[] : Min extends 0 ? Row[] : [Row, ...Row[]]
          : Row[]

/** The names of `columns` that `order` may use in addition to the columns of the table. */
export type OutputNames<Outputs> = Outputs extends readonly unknown[]
  ? NameOf<Exclude<Outputs[number], '*'>>
  : never

type NameOf<Element> = Element extends string ? PathName<Element>
  : Element extends { readonly as: infer Name extends string } ? Name
    : Element extends { readonly fn: infer Name extends string } ? Name
      : Element extends { readonly column: infer Path extends string } ? PathName<Path>
        : never

/** The name that the service gives a path: its last key, without positions in arrays. */
type PathName<Path extends string> = Path extends `${infer Base}->>${infer Key}`
  ? Key extends `${bigint}` ? PathName<Base> : Key
  : Path extends `${infer Column}->${infer Keys}` ? LastKey<Keys, Column>
    : Path

type LastKey<Keys extends string, Last extends string> = Keys extends `${infer Key}->${infer More}`
  ? LastKey<More, Key extends `${bigint}` ? Last : Key>
  : Keys extends `${bigint}` ? Last
    : Keys

type TypeOf<Row, Element> = Element extends string ? PathType<Row, Element>
  : Element extends { readonly fn: infer Fn, readonly column?: infer Path }
    ? Fn extends 'count' ? bigint
      : Fn extends 'inserted' ? boolean
        : Path extends string ? AggregateType<Fn, ValueType<Row, Path, Element>>
          : never
    : Element extends { readonly column: infer Path extends string } ? ValueType<Row, Path, Element>
      : never

type ValueType<Row, Path extends string, Element> =
  Element extends { readonly cast: infer Name extends Cast } ? CastTypes[Name]
    : PathType<Row, Path>

type PathType<Row, Path extends string> = string extends keyof Row ? Row[Path & keyof Row]
  : Path extends keyof Row ? Row[Path]
    : Path extends `${string}->>${string}` ? string | null
      : Json

/** An aggregate of no rows is NULL. */
type AggregateType<Fn, T> = unknown extends T ? unknown
  : Fn extends 'min' | 'max' ? T | null :
    NonNullable<T> extends number | bigint ? number | null
      : Json extends T ? Json
        : string | null
