/**
 * Types of a database in their various forms, brought into one: table → `Row`, `Insert`, `Update`.
 * In charge of the forms that generators write; knows nothing of batches. Numbers of 64 bits are
 * `bigint` here, whatever the client reads them as.
 */

import type { Json } from './json.ts'

/**
 * What is known of one table or view: what it answers, and what may be written. `never`: it cannot
 * be written.
 */
export interface TableTypes {
  readonly Row: object
  readonly Insert: object
  readonly Update: object
}

/** Without types: every table, with columns of which nothing is known. */
export interface AnyDatabase {
  readonly [table: string]: { readonly [column: string]: unknown }
}

/**
 * All tables and views of a database by the names that a batch may use. `Database` is one of
 * - the output of `supabase gen types typescript`: tables of `Schema` by their name, all of them as
 *   `schema.table`;
 * - an interface of tables as Kysely and kysely-codegen have it, with `ColumnType` and `Generated`
 *   where columns differ;
 * - an interface of tables with plain columns.
 */
export type TablesOf<Database, Schema extends string> = [SchemasOf<Database>] extends [never]
  ? { [Table in keyof Database & string]: KyselyTable<Database[Table]> }
  : { [Table in NamesOf<Database, Schema>]: RelationTypes<Find<Database, Schema, Table>> }

/** Those that take an insert. */
export type InsertableTables<Database, Schema extends string> = Writable<
  TablesOf<Database, Schema>,
  'Insert'
>

/** Those that take an update. */
export type UpdatableTables<Database, Schema extends string> = Writable<
  TablesOf<Database, Schema>,
  'Update'
>

type Writable<Tables, Way extends keyof TableTypes> = {
  [Table in keyof Tables as [Member<Tables[Table], Way>] extends [never] ? never : Table]:
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

type Found<Tables, Table extends string, Name extends keyof TableTypes> = Table extends keyof Tables
  ? Member<Tables[Table], Name>
  : never
type Member<Types, Name extends keyof TableTypes> = Types extends
{ readonly [N in Name]: infer Found } ? Found : never

// The form of Supabase: schema → Tables and Views → Row, Insert, Update.

/** Names of the schemas of a database in the form of Supabase; `never` when it has another form. */
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

// The form of Kysely: table → column → type, or what looks like Kysely's ColumnType.

/**
 * What a column is when it is read, inserted and updated; Kysely's type of this name has the same
 * shape. `never`: it cannot be written.
 */
export interface ColumnType<Select, Insert, Update> {
  readonly __select__: Select
  readonly __insert__: Insert
  readonly __update__: Update
}

/** A column that takes a default when it is left out. */
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

/** A column may be left out when it has a default or can be null. */
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

/** What a driver makes of values that are text in JSON: dates, intervals, bytes. */
type TextOfDriver = string | Date | { toPostgres: (...args: never) => unknown } | Uint8Array

/**
 * A type of a driver as JSON: what it reads as Date is a string, and what it reads as a string but
 * takes as a number is a number (`Int8`, `Numeric`), for JSON has room for it.
 */
type AsJson<Select, Insert> = unknown extends Select ? Select
  : Select extends string ? bigint extends Insert ? bigint : number extends Insert ? number : Select
    : Select extends TextOfDriver ? string
      : Select extends ReadonlyArray<infer Item>
        ? Insert extends ReadonlyArray<infer Written> ? Array<AsJson<Item, Written>> : Select
        : Select

/** Drivers take JSON as text that was written before; here it is written by the client. */
type Written<Select, Value> = [Exclude<Value, undefined>] extends [string]
  ? [Select] extends [TextOfDriver] ? Value : Select | Extract<Value, undefined>
  : Value
