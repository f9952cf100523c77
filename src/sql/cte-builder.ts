/**
 * Collects the common table expressions (CTEs) of a statement. PostgreSQL computes each of them
 * once, before it reads a row of the table:
 * - `s0`, `s1`, …: what earlier operations share. They are numbered by first use, so the text of an
 *   operation is the same at every position in a batch.
 * - `v0`, `v1`, …: JSON, converted to the types of columns.
 * - `l0`, `l1`, …: JSON arrays, converted to arrays of the types of columns.
 * - `x0`, `x1`, …: rows that the operation stores or reads from other tables, if the session may
 *   change meanwhile.
 *
 * Reading a CTE costs no more than a parameter, and conditions on it can use an index.
 */
import { isValue, shapeOfReference } from '../plan/document.ts'
import { fieldName } from '../plan/stored-values.ts'
import type {
  CallNode,
  ColumnPath,
  UncertainColumn,
  JsonDocument,
  JsonShape,
  Reference,
  RowsSource,
  TableName
} from '../plan/nodes.ts'
import { SYSTEM_COLUMNS, type ColumnKind, type RowColumns } from './column.ts'
import type { FindColumns } from './column-types.ts'
import { buildSourceRows } from './field-rows.ts'
import {
  empty,
  identifier,
  integer,
  join,
  parameter,
  sharedParameter,
  sql,
  whereAll,
  type Fragment
} from './fragment.ts'
import { raiseText, type ValueFault } from './marker.ts'
import { nullRowOfCall, type ArgumentBuilder } from './call.ts'
import type { FindFunction } from './function-types.ts'
import {
  buildDocument,
  isJsonNull,
  referenceJson,
  referenceText
} from './reference.ts'
import {
  exposeColumns,
  readShared,
  sharedElements,
  sharedOf,
  type ExposedColumns,
  type SharedResult,
  type SharedResults
} from './shared-results.ts'
import { MAX_TYPE_GUARDS, nullRow, tableName, typeGuard } from './table.ts'
import {
  buildTypedList,
  buildTypedRows,
  buildTypedValues,
  jsonElements,
  pathLabel,
  rowOfJsonNull,
  typeExample,
  type TypedAs,
  type TypedList,
  type TypedPath,
  type TypedValue
} from './typed-json.ts'
import type { ChangeBuilder, ReferenceOptions } from './value-builder.ts'
import { buildColumnCheck, isJson } from './value-checks.ts'

export interface CteBuilderOptions {
  /** See CompileOptions. */
  readonly checkValues?: boolean | undefined
  /** See CompileOptions. */
  readonly restoreSession?: boolean | undefined
  /** Output columns of which later operations read single values. */
  readonly exposed?: ExposedColumns
  /** See sourceColumns. */
  readonly source: RowColumns
  /** The types of columns, if they are known. */
  readonly findColumns?: FindColumns | undefined
  /** The functions of a name, if they are known. */
  readonly findFunction?: FindFunction | undefined
  /** The operation that calls the function `table`. */
  readonly call?: CallNode | undefined
  /** See CompileOptions. */
  readonly distributed?: boolean | undefined
  /** Leaves out value checks: clients see query plans, and checks contain the markers' secret. */
  readonly explain?: boolean
}

/** A function takes at most 100 arguments, and each value needs two. */
const VALUES_PER_QUERY = 50

/**
 * Up to this many values are read from the JSON text itself. Each of them parses the text from its
 * start, but the CTE costs more (10 us an operation, measured in a backend).
 */
const MAX_DIRECT_ROWS = 4
const MAX_DIRECT_READS = 4

/** Values that meet columns of one table. */
interface TypedValues {
  readonly table: TableName
  /** A row of the table in which every column is NULL. */
  readonly nulls: Fragment
  readonly values: TypedValue[]
}

/** What the builders of one statement share, one for each of its tables. */
interface Collected {
  needsValueChecks: boolean
  directReads: number
  /** Rows of other tables that have a name. */
  rows: number
  /** Columns that give parameters their types, by name. */
  readonly parameterColumns: Map<string, readonly [table: TableName, column: string]>
  /** Names of the CTEs with shared results. */
  readonly sources: Map<SharedResult, string>
  /** Parameters with the names of settings. */
  readonly settings: Map<SharedResult, Fragment>
  /** The values of `v0`, `v1`, …; those of one CTE meet columns of one table. */
  readonly values: TypedValues[]
  readonly lists: Array<{ readonly nulls: Fragment, readonly list: TypedList }>
  readonly stored: Fragment[]
}

function nothingCollected (): Collected {
  return {
    needsValueChecks: false,
    directReads: 0,
    rows: 0,
    parameterColumns: new Map(),
    sources: new Map(),
    settings: new Map(),
    values: [],
    lists: [],
    stored: []
  }
}

export class CteBuilder implements ArgumentBuilder, ChangeBuilder {
  readonly table: TableName
  readonly row: Fragment
  readonly source: RowColumns
  readonly checkValues: boolean
  readonly restoreSession: boolean
  readonly distributed: boolean
  readonly #results: SharedResults
  readonly #options: CteBuilderOptions
  /** The columns that stand beside the row, with `checkValues`. */
  readonly exposed: ExposedColumns
  readonly #collected: Collected

  constructor (
    table: TableName,
    results: SharedResults,
    options: CteBuilderOptions,
    collected = nothingCollected(),
    row = sql`t`
  ) {
    this.table = table
    this.row = row
    this.source = options.source
    this.checkValues = options.checkValues === true
    this.restoreSession = options.restoreSession === true
    this.distributed = options.distributed === true
    this.#results = results
    this.#options = options
    this.exposed = (this.checkValues && options.exposed) || []
    this.#collected = collected
  }

  get explain (): boolean {
    return this.#options.explain === true
  }

  get findFunction (): FindFunction | undefined {
    return this.#options.findFunction
  }

  kindOf (column: string): ColumnKind | undefined {
    // The columns of a function are not known.
    if (this.#options.call !== undefined) return undefined
    return this.#options.findColumns?.(this.table)?.kinds.get(column)
  }

  ofTable (table: TableName): CteBuilder {
    const row = sql`t${integer(++this.#collected.rows)}`
    const options = { ...this.#options, call: undefined }
    return new CteBuilder(table, this.#results, options, this.#collected, row)
  }

  buildDocument (document: JsonDocument): Fragment {
    return buildDocument(document, this)
  }

  sharedOf (reference: Reference): SharedResult {
    return sharedOf(reference, this.#results)
  }

  readElements (result: SharedResult): Fragment {
    const { sources } = this.#collected
    const name = sources.get(result) ?? `s${sources.size}`
    sources.set(result, name)
    return identifier(name)
  }

  readDirectly (result: SharedResult): Fragment | undefined {
    const { rows = Infinity } = result
    return rows > MAX_DIRECT_ROWS || this.#collected.directReads++ >= MAX_DIRECT_READS
      ? undefined
      : this.readArray(result)
  }

  readArray (result: SharedResult): Fragment {
    const { settings } = this.#collected
    const setting = settings.get(result) ?? sharedParameter(result.setting)
    settings.set(result, setting)
    return readShared(setting)
  }

  /** Converts JSON of the given shape to the type of a column path. */
  addValue (
    json: Fragment,
    path: TypedPath,
    { as = 'value', shape = 'scalar' }: { readonly as?: TypedAs, readonly shape?: JsonShape } = {}
  ): Fragment {
    this.#collected.needsValueChecks ||= shape !== 'scalar'
    return this.#addTypedValue({
      json,
      example: typeExample(path, this.table, as),
      shape: this.explain ? 'scalar' : shape,
      label: pathLabel(path)
    })
  }

  /**
   * A value that is only compared needs no check, because it is not stored. There the JSON null
   * counts as NULL; shared results do not distinguish them.
   */
  buildReference (
    reference: Reference,
    path: TypedPath,
    { stored, as = 'value' }: ReferenceOptions
  ): Fragment {
    const compared = isValue(reference) && !stored
    const shape = compared || as === 'difference' ? 'scalar' : shapeOfReference(reference)
    const value = this.addValue(referenceJson(reference, this), path, { as, shape })
    if (!this.checkValues || compared || as === 'difference' || !isValue(reference)) return value
    const jsonNull = this.addJsonNull(path, { when: isJsonNull(reference) })
    return sql`coalesce(${value}, ${jsonNull})`
  }

  buildReferenceText (reference: Reference): Fragment {
    return referenceText(reference, this)
  }

  buildJson (document: JsonDocument, path: TypedPath): Fragment {
    return this.addValue(buildDocument(document, this), path, { shape: document.shape })
  }

  buildJsonNull (path: ColumnPath, { refuse }: { readonly refuse: boolean }): Fragment {
    return this.addJsonNull(path, { refuse })
  }

  buildList (document: JsonDocument, path: TypedPath): Fragment {
    const json = buildDocument(document, this)
    if (path.resultType !== 'column') return jsonElements(json, path.resultType)
    const example = typeExample(path, this.table, 'value')
    const list = { json, example }
    const position = this.#collected.lists.push({ nulls: this.#nulls(), list }) - 1
    const query = identifier(`l${position}`)
    return sql`(select ${query}.f1 from ${query})`
  }

  /**
   * Returns the JSON null in the type of a column path. For a type other than json and jsonb that
   * is NULL, or with `refuse` a failure (`value`). `when`: a condition; NULL if it is not true.
   */
  addJsonNull (
    path: TypedPath,
    { refuse = false, when }: { readonly refuse?: boolean, readonly when?: Fragment } = {}
  ): Fragment {
    if (path.resultType === 'json') {
      return sql`case when ${when ?? sql`true`} then 'null'::jsonb end`
    }
    if (this.#options.call !== undefined) return this.#addJsonNullOfCall(path)
    const fault: ValueFault = { problem: 'null', path: ['', pathLabel(path)] }
    const raised = sql`${raiseText('value', parameter(JSON.stringify(fault)))}::json`
    // The expression is an aggregate or a cast, and neither json nor jsonb.
    if (path.example !== undefined) return this.addValue(raised, path)
    const failure = sql` else ${raised}`
    const isJsonType = isJson(typeExample(path, this.table, 'value'))
    const condition = sql`${when === undefined ? empty : sql`${when} and `}${isJsonType}`
    const json = sql`case when ${condition}
        then to_json(${rowOfJsonNull(this.table, path.column)})${refuse ? failure : empty} end`
    const example = sql`null::${tableName(this.table)}`
    const row = this.#addTypedValue({ json, example, shape: 'scalar', label: '' })
    return sql`(${row}).${identifier(path.column)}`
  }

  /** A condition names the column, so PostgreSQL knows its type. */
  #addJsonNullOfCall ({ column }: ColumnPath): Fragment {
    const value = sql`${this.row}.${identifier(column)}`
    return sql`case when ${isJson(value)} then case when false then ${value} else 'null' end end`
  }

  /**
   * Returns `<rows> as x`: rows with these columns that the operation stores. With `restoreSession`
   * and in a distributed database they are a CTE, which is computed before the operation starts.
   * In the latter it also makes the checks of checkStoredRows.
   */
  addStoredRows (
    rows: Fragment,
    columns: readonly string[],
    uncertainColumns: readonly UncertainColumn[]
  ): Fragment {
    if (!this.#computesFirst()) return sql`${rows} as x`
    const names = join(columns.map(identifier), sql`, `)
    const checks = this.distributed ? this.checkStoredRows(uncertainColumns) : []
    const all = sql`select ${names} from ${rows} as x${whereAll(checks)}`
    return sql`${this.addRows(all)} as x`
  }

  /**
   * In a distributed database the conditions are a CTE: Citus refuses CASE in the condition of a
   * change, and a worker does not have the settings of earlier operations.
   */
  evaluateOnce (conditions: readonly Fragment[]): readonly Fragment[] {
    if (!this.distributed || conditions.length === 0) return conditions
    const all = sql`select ${join(conditions, sql` and `)} as ok`
    return [sql`(select c.ok from ${this.addRows(all)} as c)`]
  }

  /** Returns the name of a CTE with the rows of a query. */
  addRows (query: Fragment): Fragment {
    const position = this.#collected.stored.push(query) - 1
    return identifier(`x${position}`)
  }

  /** Builds a query that converts a JSON array of objects to rows of the types of `examples`. */
  buildTypedRows (json: Fragment, examples: readonly Fragment[]): Fragment {
    return buildTypedRows(json, examples, this.#nulls())
  }

  /**
   * With `restoreSession` and in a distributed database the query runs before the operation starts.
   */
  addSource (query: Fragment): Fragment {
    if (!this.#computesFirst()) return sql`(${query})`
    return this.addRows(query)
  }

  buildSourceRows (source: RowsSource): Fragment {
    return this.addRows(buildSourceRows(source, this))
  }

  /**
   * Registers columns of the stored row `x` whose value may differ from the JSON. Returns the
   * conditions that check them.
   */
  checkStoredRows (columns: readonly UncertainColumn[]): readonly Fragment[] {
    this.#collected.needsValueChecks ||= columns.length > 0
    if (this.explain || this.checkValues || columns.length === 0) return []
    return [buildColumnCheck(columns)]
  }

  /** Registers that a parameter takes its type from a column. */
  addParameterType (column: string): void {
    // A call is not prepared.
    if (SYSTEM_COLUMNS.has(column) || this.#options.call !== undefined) return
    const { table } = this
    const name = [table.schema, table.name, column].join('\0')
    this.#collected.parameterColumns.set(name, [table, column])
  }

  /** See exposeColumns. */
  exposedColumns (from?: Fragment, source?: Fragment): Fragment {
    return exposeColumns(this.exposed, from, source)
  }

  /** Whether the statement stores or compares JSON that may not fit the type of its column. */
  needsValueChecks (): boolean {
    return this.#collected.needsValueChecks
  }

  /**
   * Returns a NULL of the type of each column that gives a parameter its type. PostgreSQL refuses
   * to run a prepared statement whose result types have changed, so no statement runs with outdated
   * parameter types. Returns undefined if there are too many: do not prepare the statement.
   */
  parameterTypes (): readonly Fragment[] | undefined {
    const { parameterColumns } = this.#collected
    if (parameterColumns.size > MAX_TYPE_GUARDS) return undefined
    return [...parameterColumns.values()].map(([table, column]) => typeGuard(table, column))
  }

  /** Returns the CTEs: `s0 as materialized (…), v0 as …, l0 as …, x0 as …`. */
  build (): readonly Fragment[] {
    const { sources, values, lists, stored } = this.#collected
    const cte = (name: string, query: Fragment): Fragment =>
      sql`${identifier(name)} as materialized (${query})`
    return [
      ...[...sources].map(([{ setting }, name]) => cte(name, sharedElements(setting))),
      ...values.map(({ nulls, values }, i) =>
        cte(`v${i}`, buildTypedValues(values, nulls, this.checkValues))
      ),
      ...lists.map(({ nulls, list }, i) => cte(`l${i}`, buildTypedList(list, nulls))),
      ...stored.map((query, i) => cte(`x${i}`, query))
    ]
  }

  /**
   * Returns a condition that is true and computes all values, lists and stored rows. It contains no
   * column, so PostgreSQL evaluates it before it reads any row.
   */
  computeFirst (): Fragment {
    const { values, lists, stored } = this.#collected
    const names = [
      ...values.map((_, i) => `v${i}`),
      ...lists.map((_, i) => `l${i}`),
      ...stored.map((_, i) => `x${i}`)
    ]
    return join([
      sql`true`,
      ...names.map(name => sql`(select count(*) from ${identifier(name)}) is not null`)
    ], sql` and `)
  }

  #computesFirst (): boolean {
    return this.restoreSession || this.distributed
  }

  /** A row of the table in which every column is NULL. */
  #nulls (): Fragment {
    const { call } = this.#options
    return call === undefined
      ? sql`json_populate_record(${nullRow(this.table)}, '{}')`
      : nullRowOfCall(call, this)
  }

  #addTypedValue (value: TypedValue): Fragment {
    const { values: queries } = this.#collected
    let position = queries.findIndex(({ table, values }) =>
      table === this.table && values.length < VALUES_PER_QUERY
    )
    if (position < 0) {
      position = queries.push({ table: this.table, nulls: this.#nulls(), values: [] }) - 1
    }
    const { values } = queries[position] as Collected['values'][number]
    const query = identifier(`v${position}`)
    const field = identifier(fieldName(values.push(value) - 1))
    return sql`(select ${query}.${field} from ${query})`
  }
}
