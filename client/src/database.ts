/**
 * Converts the forms of database types that generators write to one form: `Row`, `Insert` and
 * `Update` by table. 64-bit numbers are `bigint` here, whatever the client's `numbers` option is.
 */

import type { Json } from './json.ts'

/**
 * The types of one table or view: the rows it returns, and the values it accepts. `never` means
 * that it cannot be written.
 */
export interface TableTypes {
  readonly Row: object
  readonly Insert: object
  readonly Update: object
}

/** The default without types: any table, with columns of unknown type. */
export interface AnyDatabase {
  readonly [table: string]: { readonly [column: string]: unknown }
}

/**
 * All tables and views of a database, by the names that a batch may use. `Database` is one of:
 * - the output of `supabase gen types typescript`. Every table is named `schema.table`, and those
 *   of `Schema` also by their name only;
 * - an interface of tables as Kysely and kysely-codegen write it, with `ColumnType` and `Generated`
 *   for columns whose read and write types differ;
 * - an interface of tables with plain columns.
 */
export type TablesOf<Database, Schema extends string> = [SchemasOf<Database>] extends [never]
  ? { [Table in keyof Database & string]: KyselyTable<Database[Table]> }
  : { [Table in NamesOf<Database, Schema>]: RelationTypes<Find<Database, Schema, Table>> }

/** The tables that accept inserts. */
export type InsertableTables<Database, Schema extends string> = Writable<
  TablesOf<Database, Schema>,
  'Insert'
>

/** The tables that accept updates. */
export type UpdatableTables<Database, Schema extends string> = Writable<
  TablesOf<Database, Schema>,
  'Update'
>

type Writable<Tables, Kind extends keyof TableTypes> = {
  [Table in keyof Tables as [Member<Tables[Table], Kind>] extends [never] ? never : Table]:
  Tables[Table]
}

export type Row<Database, Schema extends string, Table extends string> = Found<
  TablesOf<Database, Schema>,
  Table,
  'Row'
>
export type Insert<Database, Schema extends string, Table extends string> = Found<
  TablesOf<Database, Schema>,
  Table,
  'Insert'
>
export type Update<Database, Schema extends string, Table extends string> = Found<
  TablesOf<Database, Schema>,
  Table,
  'Update'
>

/** The rows of every table, for conditions on other tables. */
export type RowsByTable<Database, Schema extends string> = {
  [Table in keyof TablesOf<Database, Schema> & string]: Row<Database, Schema, Table>
}

/** The functions of a database in the form of Supabase: arguments and result by name. */
export type FunctionsOf<Database, Schema extends string> = [SchemasOf<Database>] extends [never]
  ? { readonly [name: string]: { Args: { readonly [name: string]: unknown }, Returns: unknown } }
  : Schema extends keyof Database ? Part<Database[Schema], 'Functions'>
    : never

/** A row of the result of a function. A scalar is a row with one column, named as the function. */
export type FunctionRow<Functions, Name extends keyof Functions & string> = Member<
  Functions[Name],
  'Returns'
> extends infer Result
  ? unknown extends Result ? { readonly [column: string]: unknown }
    : Result extends ReadonlyArray<infer Row> ? RowOf<Row, Name>
      : RowOf<Result, Name>
  : never

type RowOf<Result, Name extends string> = Result extends object ? Result
  : { [Column in Name]: Result }

type Found<Tables, Table extends string, Name extends keyof TableTypes> = Table extends keyof Tables
  ? Member<Tables[Table], Name>
  : never
type Member<Types, Name extends string> = Types extends
{ readonly [N in Name]: infer Found } ? Found : never

// Supabase: schema → Tables and Views → Row, Insert, Update.

/** The schema names of a database in the form of Supabase; `never` for other forms. */
type SchemasOf<Database> =
  & {
    [Name in keyof Database]: Database[Name] extends { Tables: object } ? Name : never
  }[keyof Database]
  & string

type NamesOf<Database, Schema extends string> = {
  [Name in SchemasOf<Database>]:
    | `${Name}.${Relations<Database[Name]>}`
    | (Name extends Schema ? Relations<Database[Name]> : never)
}[SchemasOf<Database>]

type Relations<SchemaTypes> =
  & (keyof Part<SchemaTypes, 'Tables'> | keyof Part<SchemaTypes, 'Views'>)
  & string

export type Arguments<Functions, Name extends keyof Functions> = Member<Functions[Name], 'Args'>

type Part<SchemaTypes, Name extends string> = SchemaTypes extends
{ readonly [N in Name]: infer Found } ? Found : Record<never, never>

type Find<Database, Schema extends string, Table extends string> = Schema extends keyof Database
  ? Table extends Relations<Database[Schema]> ? Relation<Database[Schema], Table>
    : FindQualified<Database, Table>
  : FindQualified<Database, Table>

type FindQualified<Database, Table extends string> = Table extends `${infer Name}.${infer Rest}`
  ? Name extends keyof Database ? Relation<Database[Name], Rest> : never
  : never

type Relation<SchemaTypes, Table extends string> = Table extends keyof Part<SchemaTypes, 'Tables'>
  ? Part<SchemaTypes, 'Tables'>[Table]
  : Table extends keyof Part<SchemaTypes, 'Views'> ? Part<SchemaTypes, 'Views'>[Table]
    : never

interface RelationTypes<Types> {
  Row: Member<Types, 'Row'>
  Insert: Member<Types, 'Insert'>
  Update: Member<Types, 'Update'>
}

// Kysely: table → column → type, or a type with the shape of Kysely's ColumnType.

/**
 * The types of a column when it is read, inserted and updated. Kysely's type of this name has the
 * same shape. `never` means that the column cannot be written.
 */
export interface ColumnType<Select, Insert, Update> {
  readonly __select__: Select
  readonly __insert__: Insert
  readonly __update__: Update
}

/** A column with a default. An insert may omit it. */
export type Generated<T> = T extends ColumnType<infer Select, infer Insert, infer Update>
  ? ColumnType<Select, Insert | undefined, Update>
  : ColumnType<T, T | undefined, T>

interface KyselyTable<Columns> {
  Row: { [Name in keyof Columns]: Selected<Columns[Name]> }
  Insert: KyselyInsert<Columns>
  Update: {
    [Name in keyof Columns as [Updated<Columns[Name]>] extends [never] ? never : Name]?: Updated<
      Columns[Name]
    >
  }
}

type KyselyInsert<Columns> =
  & {
    [
    Name in keyof Columns as InsertRule<Inserted<Columns[Name]>> extends 'required' ? Name : never
    ]: Inserted<Columns[Name]>
  }
  & {
    [
    Name in keyof Columns as InsertRule<Inserted<Columns[Name]>> extends 'optional' ? Name : never
    ]?: Exclude<Inserted<Columns[Name]>, undefined>
  }

/** An insert may omit a column that has a default or is nullable. */
type InsertRule<Value> = [Value] extends [never] ? 'never'
  : undefined extends Value ? 'optional' :
    null extends Value ? 'optional'
      : 'required'

type Selected<Column> = Json extends Column ? Column
  : Column extends ColumnType<infer Select, infer Insert, unknown> ? AsJson<Select, Insert>
    : AsJson<Column, Column>
type Inserted<Column> = Column extends ColumnType<infer Select, infer Insert, unknown>
  ? Written<Select, Insert>
  : Column
type Updated<Column> = Column extends ColumnType<infer Select, unknown, infer Update>
  ? Exclude<Written<Select, Update>, undefined>
  : Column

/** Types that drivers use for values that are text in JSON: dates, intervals, bytes. */
type TextOfDriver = string | Date | { toPostgres: (...args: never) => unknown } | Uint8Array

/**
 * Converts a driver's type to the type in JSON. A Date is a string. A column that is read as a
 * string but accepts a number (`Int8`, `Numeric`) is a number, because JSON numbers have any size.
 */
type AsJson<Select, Insert> = unknown extends Select ? Select
  : Select extends string ? bigint extends Insert ? bigint : number extends Insert ? number : Select
    : Select extends TextOfDriver ? string
      : Select extends ReadonlyArray<infer Item>
        ? Insert extends ReadonlyArray<infer Written> ? Array<AsJson<Item, Written>> : Select
        : Select

/** Drivers take JSON as serialized text; this client serializes it. */
type Written<Select, Value> = [Value] extends [never] ? never
  : [Exclude<Value, undefined>] extends [string]
      ? [Select] extends [TextOfDriver] ? Value : Select | Extract<Value, undefined>
      : Value
