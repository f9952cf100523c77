/**
 * Types of the four operations: their members, and what they answer. The members are those of the
 * batch language, under their own names.
 */
import type {
  Insert,
  InsertableTables,
  Row,
  TablesOf,
  UpdatableTables,
  Update
} from './database.ts'
import type { ColumnPath, Filter, IndexFilter } from './filter.ts'
import type { Expect, Output, OutputNames, OutputRow, Rows, SelectOutput } from './output.ts'
import type { Modifier, RowReference, RowsReference } from './reference.ts'
import type { AnsweredRow, InputRow, Numbers, SetValues } from './values.ts'

declare const answer: unique symbol

/** Something that answers rows. */
export interface Answering<out Answer> {
  readonly [answer]: Answer
}

/** An operation of a batch. What it will answer can be referred to by the operations after it. */
export interface Operation<Row, Answer> extends Answering<Answer> {
  /**
   * The row `index` (0 unless said otherwise): its properties stand for its columns, it itself for
   * the whole row as JSON.
   */
  row(index?: number): RowReference<Row>
  /**
   * Its properties stand for the values of a column in all rows, as a list: for `in`, `nin`,
   * `$.any`, and for arrays.
   */
  readonly rows: RowsReference<Row>
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
   * Adds a row, or several; answers them as they are in the table. A column that is left out takes
   * its default.
   */
  insert<
    Table extends keyof InsertableTables<Database, Schema> & string,
    const Outputs extends ReadonlyArray<Output<Row<Database, Schema, Table>>> | undefined =
    undefined,
    const Expected extends Expect = Expect
  >(
    table: Table,
    values:
      | InputRow<Insert<Database, Schema, Table>, Mode>
      | ReadonlyArray<InputRow<Insert<Database, Schema, Table>, Mode>>,
    options?:
      & InsertOptions<Row<Database, Schema, Table>, Update<Database, Schema, Table>, Mode>
      & Answers<Outputs, Expected>
  ): Operation<
    OutputRow<Row<Database, Schema, Table>, Outputs>,
    OutputRows<Row<Database, Schema, Table>, Outputs, Expected, Mode>
  >

  /** Changes the rows that meet `where` (or `all` of them); answers them as they are afterwards. */
  update<
    Table extends keyof UpdatableTables<Database, Schema> & string,
    const Outputs extends ReadonlyArray<Output<Row<Database, Schema, Table>>> | undefined =
    undefined,
    const Expected extends Expect = Expect
  >(
    table: Table,
    options:
      & UpdateOptions<Row<Database, Schema, Table>, Update<Database, Schema, Table>, Mode>
      & Answers<Outputs, Expected>
  ): Operation<
    OutputRow<Row<Database, Schema, Table>, Outputs>,
    OutputRows<Row<Database, Schema, Table>, Outputs, Expected, Mode>
  >

  /** Removes the rows that meet `where` (or `all` of them); answers them as they were. */
  delete<
    Table extends keyof TablesOf<Database, Schema> & string,
    const Outputs extends ReadonlyArray<Output<Row<Database, Schema, Table>>> | undefined =
    undefined,
    const Expected extends Expect = Expect
  >(
    table: Table,
    options: DeleteOptions<Row<Database, Schema, Table>, Mode> & Answers<Outputs, Expected>
  ): Operation<
    OutputRow<Row<Database, Schema, Table>, Outputs>,
    OutputRows<Row<Database, Schema, Table>, Outputs, Expected, Mode>
  >

  /** Answers the rows that meet `where`, all of them without one. */
  select<
    Table extends keyof TablesOf<Database, Schema> & string,
    const Outputs extends ReadonlyArray<SelectOutput<Row<Database, Schema, Table>>> | undefined =
    undefined,
    const Expected extends Expect = Expect
  >(
    table: Table,
    options?: SelectOptions<Row<Database, Schema, Table>, Mode, Outputs, Expected>
  ): Operation<
    OutputRow<Row<Database, Schema, Table>, Outputs>,
    OutputRows<Row<Database, Schema, Table>, Outputs, Expected, Mode>
  >
}

/** The type of `where` of a table, for filters that are made apart from their operation. */
export type Where<
  Database,
  Table extends string,
  Schema extends string = 'public',
  Mode extends Numbers = 'number'
> = Filter<Row<Database, Schema, Table>, Mode>

/**
 * The rows of an answer. `Outputs` is undefined where whole rows are answered, `[]` where nothing
 * is.
 */
export type OutputRows<Row, Outputs, Expected, Mode extends Numbers> = Outputs extends readonly []
  ? []
  : Rows<AnsweredRow<OutputRow<Row, Outputs>, Mode>, Expected>

export interface Answers<Outputs, Expected> {
  /** Columns to answer, `'column'` or `{ column, as }`; without it all of them, `[]` none. */
  readonly returning?: Outputs
  /**
   * Number of rows the operation must affect; else nothing happens, and the batch fails with
   * `expectation_failed`.
   */
  readonly expect?: Expected
}

export interface InsertOptions<Row, Update, Mode extends Numbers> {
  /** What to do with a row that is there already. */
  readonly on_conflict?: OnConflict<Row, Update, Mode>
}

/** The unique index is named by its columns or by its constraint. */
export type OnConflict<Row, Update, Mode extends Numbers> =
  & ConflictTarget<Row, Mode>
  & ConflictAction<Row, Update, Mode>

type ConflictTarget<Row, Mode extends Numbers> =
  | {
    readonly columns: ReadonlyArray<keyof Row & string>,
    readonly index_where?: IndexFilter<Row, Mode>,
    readonly constraint?: never
  }
  | { readonly constraint: string, readonly columns?: never, readonly index_where?: never }

type ConflictAction<Row, Update, Mode extends Numbers> =
  | { readonly do: 'nothing', readonly set?: never, readonly where?: never }
  | {
    readonly do: 'update',
    /** Values for the row that is there; without it every column of the new row is taken over. */
    readonly set?: SetValues<Update, Mode, ColumnPath<Row>, ColumnPath<Row>>,
    /** Which rows that are there are changed. */
    readonly where?: Filter<
      Row,
      Mode,
      Modifier<'$col', ColumnPath<Row>> | Modifier<'$excluded', ColumnPath<Row>>
    >
  }

export type UpdateOptions<Row, Update, Mode extends Numbers> =
  & {
    /** New values of columns, or what computes them: `$.inc(1)`, `$.now()`, … */
    readonly set: SetValues<Update, Mode, ColumnPath<Row>>
  }
  & Chosen<Row, Mode>

export type DeleteOptions<Row, Mode extends Numbers> = Chosen<Row, Mode>

/** Which rows are changed. That it is every row has to be said. */
type Chosen<Row, Mode extends Numbers> =
  | { readonly where: Filter<Row, Mode>, readonly all?: never }
  | { readonly all: true, readonly where?: never }

export interface SelectOptions<Row, Mode extends Numbers, Outputs, Expected> {
  readonly where?: Filter<Row, Mode>
  /** Columns and aggregates to answer; without it all columns. */
  readonly columns?: Outputs
  /** Columns whose values make a group. */
  readonly group_by?: ReadonlyArray<ColumnPath<Row>>
  /** Columns, or names of the answer, the first one first. Without it the order is not defined. */
  readonly order?: ReadonlyArray<
    { readonly [Name in ColumnPath<Row> | OutputNames<Outputs>]?: Ordering }
  >
  /** Most rows. */
  readonly limit?: number
  /** Rows to leave out first. */
  readonly offset?: number
  /** Locks the rows until the end of the batch. */
  readonly lock?: LockMode | { readonly mode?: LockMode, readonly wait?: 'nowait' | 'skip_locked' }
  /**
   * Number of rows that must be there; else nothing happens, and the batch fails with
   * `expectation_failed`.
   */
  readonly expect?: Expected
}

export type Direction = 'asc' | 'desc'
export type Ordering = Direction | {
  readonly direction?: Direction,
  readonly nulls?: 'first' | 'last'
}
export type LockMode = 'update' | 'no_key_update' | 'share' | 'key_share'
