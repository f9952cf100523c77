/**
 * Types of the operations: their options and their results. The options have the names of the
 * batch language.
 */
import type {
  Arguments,
  FunctionRow,
  FunctionsOf,
  Insert,
  InsertableTables,
  Row,
  RowsByTable,
  TablesOf,
  UpdatableTables,
  Update
} from './database.ts'
import type { ColumnPath, Filter, IndexFilter } from './filter.ts'
import type {
  Expect,
  InsertOutput,
  Output,
  OutputNames,
  OutputRow,
  Rows,
  SelectOutput
} from './output.ts'
import type { Modifier, Reference, RowReference, RowsReference } from './reference.ts'
import type {
  Input,
  InputRow,
  NumberInput,
  Numbers,
  QueryValues,
  ResultRow,
  SetValues
} from './values.ts'

declare const result: unique symbol

/** A value with the type of a result. */
export interface HasResult<out Result> {
  readonly [result]: Result
}

/** An operation of a batch. Later operations can refer to its rows. */
export interface Operation<Row, Result> extends HasResult<Result> {
  /**
   * A reference to the row `index` (by default 0). Its properties refer to the columns of the row.
   * As a value it is the whole row as JSON.
   */
  row(index?: number): RowReference<Row>
  /**
   * Its properties refer to the values of a column in all rows, as a list: for `in`, `nin`, `$.any`
   * and `$.all`, and for arrays.
   */
  readonly rows: RowsReference<Row>
  /**
   * Names the operation, and returns it. The name is its id in errors and logs, also if the batch
   * function does not return it.
   */
  as(name: string): this
}

/**
 * The operations of one batch. They run in the order in which they are called, as one transaction.
 */
export interface Batch<
  Database,
  Schema extends string = 'public',
  Mode extends Numbers = 'number'
> {
  /**
   * Inserts one row or several, and returns them as stored. A column that is omitted takes its
   * default.
   */
  insert<
    Table extends keyof InsertableTables<Database, Schema> & string,
    const Outputs extends ReadonlyArray<InsertOutput<Row<Database, Schema, Table>>> | undefined =
    undefined,
    const Expected extends Expect = Expect,
    const Answered extends Answer = 'rows',
    const When extends readonly RowCount[] | undefined = undefined
  >(
    table: Table,
    values:
      | InputRow<Insert<Database, Schema, Table>, Mode>
      | ReadonlyArray<InputRow<Insert<Database, Schema, Table>, Mode>>,
    options?:
      & InsertOptions<
        Row<Database, Schema, Table>,
        Update<Database, Schema, Table>,
        Mode,
        RowsByTable<Database, Schema>
      >
      & ReturningOptions<Outputs, Expected, Answered, When>
  ): RowsOperation<Row<Database, Schema, Table>, Outputs, Expected, Answered, When, Mode>

  /**
   * Inserts rows of other tables, and returns them as stored. A column that is omitted takes its
   * default.
   */
  insertFrom<
    Table extends keyof InsertableTables<Database, Schema> & string,
    const Outputs extends ReadonlyArray<Output<Row<Database, Schema, Table>>> | undefined =
    undefined,
    const Expected extends Expect = Expect,
    const Answered extends Answer = 'rows',
    const When extends readonly RowCount[] | undefined = undefined
  >(
    table: Table,
    options:
      & InsertFromOptions<
        Row<Database, Schema, Table>,
        Insert<Database, Schema, Table>,
        Update<Database, Schema, Table>,
        Mode,
        RowsByTable<Database, Schema>
      >
      & ReturningOptions<Outputs, Expected, Answered, When>
  ): RowsOperation<Row<Database, Schema, Table>, Outputs, Expected, Answered, When, Mode>

  /**
   * Updates the rows that match `where`, or `all` rows, and returns them as updated. With `key`,
   * each row of `values` updates the row of its key.
   */
  update<
    Table extends keyof UpdatableTables<Database, Schema> & string,
    const Outputs extends ReadonlyArray<Output<Row<Database, Schema, Table>>> | undefined =
    undefined,
    const Expected extends Expect = Expect,
    const Answered extends Answer = 'rows',
    const When extends readonly RowCount[] | undefined = undefined
  >(
    table: Table,
    options:
      & UpdateOptions<
        Row<Database, Schema, Table>,
        Update<Database, Schema, Table>,
        Mode,
        RowsByTable<Database, Schema>
      >
      & ReturningOptions<Outputs, Expected, Answered, When>
  ): RowsOperation<Row<Database, Schema, Table>, Outputs, Expected, Answered, When, Mode>

  /** Deletes the rows that match `where`, or `all` rows, and returns them as they were. */
  delete<
    Table extends keyof TablesOf<Database, Schema> & string,
    const Outputs extends ReadonlyArray<Output<Row<Database, Schema, Table>>> | undefined =
    undefined,
    const Expected extends Expect = Expect,
    const Answered extends Answer = 'rows',
    const When extends readonly RowCount[] | undefined = undefined
  >(
    table: Table,
    options:
      & DeleteOptions<Row<Database, Schema, Table>, Mode, RowsByTable<Database, Schema>>
      & ReturningOptions<Outputs, Expected, Answered, When>
  ): RowsOperation<Row<Database, Schema, Table>, Outputs, Expected, Answered, When, Mode>

  /** Returns the rows that match `where`; without `where`, all rows. */
  select<
    Table extends keyof TablesOf<Database, Schema> & string,
    const Outputs extends ReadonlyArray<SelectOutput<Row<Database, Schema, Table>>> | undefined =
    undefined,
    const Expected extends Expect = Expect,
    const Answered extends Answer = 'rows',
    const Nested extends
    | NestedReads<Row<Database, Schema, Table>, Mode, RowsByTable<Database, Schema>>
    | undefined = undefined,
    const When extends readonly RowCount[] | undefined = undefined
  >(
    table: Table,
    options?:
      & SelectOptions<
        Row<Database, Schema, Table>,
        Mode,
        RowsByTable<Database, Schema>,
        Outputs,
        Expected,
        Answered,
        Nested
      >
      & WhenOptions<When>
  ): Operation<
    & OutputRow<Row<Database, Schema, Table>, Outputs>
    & Members<Nested, Mode, RowsByTable<Database, Schema>>,
    Skippable<
      Result<
        Rows<
          & ResultRow<OutputRow<Row<Database, Schema, Table>, Outputs>, Mode>
          & Members<Nested, Mode, RowsByTable<Database, Schema>>,
          Expected
        >,
        Answered
      >,
      When
    >
  >

  /**
   * Calls a function and returns its rows. A scalar is one row with one column, named as the
   * function. Parameters that are omitted take their defaults.
   */
  call<
    Name extends keyof FunctionsOf<Database, Schema> & string,
    const Outputs extends
    | ReadonlyArray<SelectOutput<FunctionRow<FunctionsOf<Database, Schema>, Name>>>
    | undefined = undefined,
    const Expected extends Expect = Expect,
    const Answered extends Answer = 'rows',
    const When extends readonly RowCount[] | undefined = undefined
  >(
    name: Name,
    args?: InputRow<Arguments<FunctionsOf<Database, Schema>, Name>, Mode>,
    options?:
      & CallOptions<
        FunctionRow<FunctionsOf<Database, Schema>, Name>,
        Mode,
        RowsByTable<Database, Schema>,
        Outputs,
        Expected,
        Answered
      >
      & WhenOptions<When>
  ): RowsOperation<
    FunctionRow<FunctionsOf<Database, Schema>, Name>,
    Outputs,
    Expected,
    Answered,
    When,
    Mode
  >
}

type RowsOperation<Row, Outputs, Expected, Answered, When, Mode extends Numbers> = Operation<
  OutputRow<Row, Outputs>,
  Skippable<Result<OutputRows<Row, Outputs, Expected, Mode>, Answered>, When>
>

/** Options of a call. They read its rows as those of a select. */
export type CallOptions<Row, Mode extends Numbers, Tables, Outputs, Expected, Answered> = Omit<
  SelectOptions<Row, Mode, Tables, Outputs, Expected, Answered>,
  'group_by' | 'having' | 'distinct' | 'after' | 'lock' | 'with'
>

/** The type of `where` of a table, for filters that are built outside of an operation. */
export type Where<
  Database,
  Table extends string,
  Schema extends string = 'public',
  Mode extends Numbers = 'number'
> = Filter<Row<Database, Schema, Table>, Mode, RowsByTable<Database, Schema>>

/**
 * The rows that an operation returns. `Outputs` is undefined for whole rows, and `[]` for none.
 */
export type OutputRows<Row, Outputs, Expected, Mode extends Numbers> = Outputs extends readonly []
  ? []
  : Rows<ResultRow<OutputRow<Row, Outputs>, Mode>, Expected>

/** What the response holds of an operation: its rows, or their number. */
export type Answer = 'rows' | 'count'

type Result<Rows, Answered> = [Answered] extends ['count'] ? number : Rows

/** An earlier operation, and how many rows it must have affected or returned. */
export type RowCount = readonly [operation: HasResult<unknown>, rows: Expect]

export interface WhenOptions<When> {
  /**
   * Earlier operations with their numbers of rows: `when: [[found, 0]]`. If one of them has another
   * number, this operation is skipped, and its result is `null`.
   */
  readonly when?: When
}

/** The result of an operation, which is null if the operation is skipped. */
type Skippable<Result, When> = [When] extends [undefined] ? Result : Result | null

export interface ReturningOptions<Outputs, Expected, Answered, When> extends WhenOptions<When> {
  /**
   * The columns to return: `'column'` or `{ column, as }`, and beside `on_conflict`
   * `{ fn: 'inserted', as }`. Default: all; `[]` for none.
   */
  readonly returning?: Outputs
  /**
   * The number of rows that the operation must affect. Otherwise the batch is rolled back and fails
   * with `expectation_failed`.
   */
  readonly expect?: Expected
  /** `'count'` returns the number of rows instead of the rows. */
  readonly answer?: Answered
}

export interface InsertOptions<Row, Update, Mode extends Numbers, Tables> {
  /** What to do if the row exists. */
  readonly on_conflict?: OnConflict<Row, Update, Mode, Tables>
}

export interface InsertFromOptions<Row, Insert, Update, Mode extends Numbers, Tables>
  extends InsertOptions<Row, Update, Mode, Tables> {
  /** The rows to insert. */
  readonly from: InsertSource<Mode, Tables>
  /** The values of a row: JSON, references, or columns of `from`: `$.col('sku')`. */
  readonly columns: QueryValues<Insert, Mode>
}

/** The unique index, by its columns or its constraint, and what to do on a conflict. */
export type OnConflict<Row, Update, Mode extends Numbers, Tables> =
  & ConflictTarget<Row, Mode>
  & ConflictAction<Row, Update, Mode, Tables>

type ConflictTarget<Row, Mode extends Numbers> =
  | {
    readonly columns: ReadonlyArray<keyof Row & string>,
    readonly index_where?: IndexFilter<Row, Mode>,
    readonly constraint?: never
  }
  | { readonly constraint: string, readonly columns?: never, readonly index_where?: never }

type ConflictAction<Row, Update, Mode extends Numbers, Tables> =
  | { readonly do: 'nothing', readonly set?: never, readonly where?: never }
  | {
    readonly do: 'update',
    /** New values of the existing row. Default: those of the new row, without its key. */
    readonly set?: SetValues<
      Update,
      Mode,
      ColumnPath<Row>,
      Modifier<'$excluded', ColumnPath<Row>>
    >,
    /** A condition that existing rows must match to be updated. */
    readonly where?: Filter<
      Row,
      Mode,
      Tables,
      Modifier<'$col', ColumnPath<Row>> | Modifier<'$excluded', ColumnPath<Row>>
    >
  }

export type UpdateOptions<Row, Update, Mode extends Numbers, Tables> =
  | (
    & {
      /** New values of columns, also those of `from`: `$.from('qty')`, `$.inc($.from('qty'))`. */
      readonly set: SetValues<Update, Mode, ColumnPath<Row>, Modifier<'$from', string>>,
      readonly key?: never,
      readonly values?: never
    }
    & JoinedTarget<Row, Mode, Tables>
  )
  | (
    & {
      /** New values of columns, also computed ones: `$.inc(1)`, `$.now()`. */
      readonly set: SetValues<Update, Mode, ColumnPath<Row>>,
      readonly from?: never,
      readonly key?: never,
      readonly values?: never
    }
    & Target<Row, Mode, Tables>
  )
  | KeyedUpdateOptions<Row, Update, Mode, Tables>

/** An update with a row of values for each key. */
export type KeyedUpdateOptions<Row, Update, Mode extends Numbers, Tables> =
  & {
    /** A condition that the rows must match, in addition to their key. */
    readonly where?: Filter<Row, Mode, Tables>,
    readonly set?: never,
    readonly from?: never,
    readonly all?: never
  }
  & (
    | {
      /** The columns by which each row of `values` finds the row that it changes. */
      readonly key: ReadonlyArray<keyof Row & string>,
      /** The key and the new values of each row, also computed ones. */
      readonly values: ReadonlyArray<KeyedRow<Row, Update, Mode>>
    }
    | {
      /** `as`: the rows of `values` have the column under another name, and may change it. */
      readonly key: ReadonlyArray<
        | (keyof Row & string)
        | { readonly column: keyof Row & string, readonly as: string }
      >,
      readonly values: ReadonlyArray<
        KeyedRow<Row, Update, Mode> & { readonly [name: string]: unknown }
      >
    }
  )

/** New values, and columns of the key that cannot be updated. */
type KeyedRow<Row, Update, Mode extends Numbers> =
  & SetValues<Update, Mode, ColumnPath<Row>>
  & {
    [
    Column in keyof Row as Column extends keyof Update
      ? [Exclude<Update[Column], undefined>] extends [never] ? Column : never
      : Column
    ]?: Input<Exclude<Row[Column], null>, Mode>
  }

export type DeleteOptions<Row, Mode extends Numbers, Tables> =
  | JoinedTarget<Row, Mode, Tables>
  | (Target<Row, Mode, Tables> & { readonly from?: never })

/** Only rows that match a row of `from` are changed. */
interface JoinedTarget<Row, Mode extends Numbers, Tables> {
  readonly from: JoinedSource<Row, Mode, Tables>
  readonly where?: Filter<
    Row,
    Mode,
    Tables,
    Modifier<'$col', ColumnPath<Row>> | Modifier<'$from', string>
  >
  readonly all?: never
}

interface Source<Table extends string, Row, Mode extends Numbers, Tables> {
  readonly table: Table
  readonly where?: Filter<Row, Mode, Tables>
  /** Columns and aggregates, which then can be named by their alias. */
  readonly columns?: ReadonlyArray<SelectOutput<Row>>
  readonly group_by?: ReadonlyArray<ColumnPath<Row>>
  /** A filter of the rows to use. It names `columns`. */
  readonly having?: Filter<Readonly<Record<string, unknown>>, Mode, Tables>
}

/** Rows of another table. `on`: column → column, path or alias of that table, all equal. */
type JoinedSource<Row, Mode extends Numbers, Tables> = {
  [Table in keyof Tables & string]:
    & Source<Table, Tables[Table], Mode, Tables>
    & { readonly on: { readonly [Column in keyof Row & string]?: string } }
}[keyof Tables & string]

/** The rows to insert, as a select returns them. */
type InsertSource<Mode extends Numbers, Tables> = {
  [Table in keyof Tables & string]: Source<Table, Tables[Table], Mode, Tables> & {
    /** Uses each of several equal rows once. */
    readonly distinct?: true,
    readonly order?: ReadonlyArray<{ readonly [name: string]: Ordering }>,
    readonly limit?: number,
    readonly offset?: number
  }
}[keyof Tables & string]

/** Which rows are changed: those of a filter, or explicitly all. */
type Target<Row, Mode extends Numbers, Tables> =
  | { readonly where: Filter<Row, Mode, Tables>, readonly all?: never }
  | { readonly all: true, readonly where?: never }

export interface SelectOptions<
  Row,
  Mode extends Numbers,
  Tables,
  Outputs,
  Expected,
  Answered = Answer,
  Nested = undefined
> {
  readonly where?: Filter<Row, Mode, Tables>
  /** The columns and aggregates to return. Default: all columns. */
  readonly columns?: Outputs
  /** Returns each of several equal rows once. */
  readonly distinct?: true
  /** The columns to group by. */
  readonly group_by?: ReadonlyArray<ColumnPath<Row>>
  /** A filter of the rows to return. It names `columns`. */
  readonly having?: Filter<OutputRow<Row, Outputs>, Mode, Tables>
  /** Sort keys: columns or names of `columns`, most significant first. Default: no order. */
  readonly order?: ReadonlyArray<
    { readonly [Name in ColumnPath<Row> | OutputNames<Outputs>]?: Ordering }
  >
  /** Returns the rows that follow these values of `order`, one for each of its elements. */
  readonly after?: ReadonlyArray<PageValue<Mode>>
  /** Maximum number of rows. */
  readonly limit?: number
  /** Number of rows to skip. */
  readonly offset?: number
  /** Locks the rows until the end of the batch. */
  readonly lock?: LockMode | { readonly mode?: LockMode, readonly wait?: 'nowait' | 'skip_locked' }
  /** Rows of other tables that become members of each row. */
  readonly with?: Nested
  /**
   * The number of rows that must be found. Otherwise the batch is rolled back and fails with
   * `expectation_failed`.
   */
  readonly expect?: Expected
  /** `'count'` returns the number of rows instead of the rows. */
  readonly answer?: Answered
}

/** Rows of other tables that become members of each row, by the name of the member. */
export type NestedReads<Row, Mode extends Numbers, Tables> = {
  readonly [name: string]: NestedRead<Row, Mode, Tables>
}

/** The members of a row that nested reads add. */
export type Members<Nested, Mode extends Numbers, Tables> = [Nested] extends [undefined] ? unknown
  : { [Name in keyof Nested]: NestedResult<Nested[Name], Mode, Tables> }

type NestedResult<Read, Mode extends Numbers, Tables> = Read extends
{ readonly table: infer Table extends keyof Tables }
  ? Read extends { readonly one: true } ? NestedRow<Read, Tables[Table], Mode, Tables> | null
    : Array<NestedRow<Read, Tables[Table], Mode, Tables>>
  : never

type NestedRow<Read, Row, Mode extends Numbers, Tables> =
  & ResultRow<
    OutputRow<Row, Read extends { readonly columns: infer Outputs } ? Outputs : undefined>,
    Mode
  >
  & Members<Read extends { readonly with: infer Inner } ? Inner : undefined, Mode, Tables>

/** Rows of another table. `on`: column of that table → column of this one, all equal. */
export type NestedRead<Row, Mode extends Numbers, Tables> = {
  [Table in keyof Tables & string]: {
    readonly table: Table,
    readonly on: { readonly [Column in keyof Tables[Table] & string]?: keyof Row & string },
    /** The member is the row or null, instead of an array. */
    readonly one?: true,
    /** The columns to return. Default: all columns. */
    readonly columns?: ReadonlyArray<Output<Tables[Table]>>,
    readonly where?: Filter<Tables[Table], Mode, Tables>,
    readonly order?: ReadonlyArray<{ readonly [Column in ColumnPath<Tables[Table]>]?: Ordering }>,
    readonly limit?: number,
    readonly offset?: number,
    readonly with?: NestedReads<Tables[Table], Mode, Tables>
  }
}[keyof Tables & string]
/** A value of the last row of the page before, or a reference to one. */
export type PageValue<Mode extends Numbers> =
  | NumberInput<Mode>
  | string
  | boolean
  | Date
  | null
  | Reference<string | number | bigint | boolean | null>

export type Direction = 'asc' | 'desc'
export type Ordering = Direction | {
  readonly direction?: Direction,
  readonly nulls?: 'first' | 'last'
}
export type LockMode = 'update' | 'no_key_update' | 'share' | 'key_share'
