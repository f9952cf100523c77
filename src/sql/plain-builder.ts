/**
 * Builds the values of a statement in the plain form, in which the types of columns are named. What
 * the plain form does not support clears `plain`; the statement must not be used then.
 */
import { isAllColumns, isUnchanged } from '../plan/output.ts'
import { isNested } from '../plan/stored-values.ts'
import type {
  Cell,
  JsonDocument,
  OutputColumn,
  Parameter,
  PlanNode,
  Reference,
  ReferenceUse,
  RowsSource,
  SourceField,
  StoredJson,
  TableName
} from '../plan/nodes.ts'
import { meetColumn } from '../plan/name.ts'
import { casts } from '../../schemas/cast.ts'
import { jsonOfParameter, textOfParameter } from '../plan/parameter.ts'
import type { ColumnKind, RowColumns } from './column.ts'
import {
  NUMBER_OIDS,
  TypeOid,
  type ColumnType,
  type FindColumns,
  type TableColumns
} from './column-types.ts'
import {
  empty,
  fill,
  identifier,
  integer,
  join,
  nullableParameter,
  parameter,
  sharedParameter,
  sql,
  type Fragment
} from './fragment.ts'
import { buildFirst } from './gate.ts'
import { raise } from './marker.ts'
import { valueSetting } from './settings.ts'
import { MAX_TYPE_GUARDS, typeGuard } from './table.ts'
import type { TypedAs, TypedPath } from './typed-json.ts'
import type { ChangeBuilder, ReferenceOptions } from './value-builder.ts'

/** A value that later operations read. */
export interface PublishedValue {
  readonly row: number
  readonly output: string
  /** The column of the table. */
  readonly column: string
  readonly type: ColumnType
  readonly setting: string
}

/** What an operation publishes in the plain form. */
export interface Publication {
  readonly values: readonly PublishedValue[]
  /** Whether a missing row is not noticed by the publisher, but only by its readers. */
  readonly direct: boolean
}

/** More values, each with an expression of its own, make a text that is not prepared. */
const MAX_PUBLISHED_VALUES = 100

/**
 * Returns the values that later operations read from one operation. Returns undefined if it cannot
 * publish them one by one.
 */
export function findPublishedValues (
  { index, output }: PlanNode,
  uses: readonly ReferenceUse[],
  { supported }: TableColumns
): readonly PublishedValue[] | undefined {
  const values: PublishedValue[] = []
  for (const { reference: { row, column: name } } of uses) {
    if (row === '*' || name === undefined || values.length === MAX_PUBLISHED_VALUES) {
      return undefined
    }
    if (values.some(value => value.row === row && value.output === name)) continue
    const column = tableColumn(output, name)
    const type = column === undefined ? undefined : supported.get(column)
    if (column === undefined || type === undefined || isJsonType(type)) return undefined
    const setting = valueSetting(index, values.length)
    values.push({ row, output: name, column, type, setting })
  }
  return values
}

/** The column of the table that an output column returns unchanged. */
function tableColumn (
  output: readonly OutputColumn[] | undefined,
  name: string
): string | undefined {
  if (output === undefined) return name
  const found = output.find(column => column.name === name)
  if (found === undefined && output.some(isAllColumns)) return name
  if (found === undefined || !isUnchanged(found)) return undefined
  return found.path.resultType === 'column' ? found.path.column : undefined
}

function isJsonType ({ oid }: ColumnType): boolean {
  return oid === TypeOid.json || oid === TypeOid.jsonb
}

/** How a reference is read. */
interface ReadOptions {
  /** The type that its value is converted to. */
  readonly type?: ColumnType
  /** Reading it shows whether its row exists. */
  readonly checked?: boolean
}

/** What the builders of one statement share, one for each of its tables. */
interface Collected {
  /** See sourceColumns. */
  readonly source: RowColumns
  /** The columns whose types the statement depends on, with the OIDs of the types, by name. */
  readonly guards: Map<
    string,
    { readonly table: TableName, readonly column: string, readonly oid: number }
  >
  /** Parameters with the names of settings. */
  readonly settings: Map<string, Fragment>
  /** A setting of each operation whose readers check that its row exists. */
  readonly unchecked: Map<number, Fragment>
  /** Rows of other tables that have a name. */
  rows: number
  plain: boolean
}

/** `source`: see sourceColumns. */
export function nothingCollected (source: RowColumns): Collected {
  return {
    source,
    guards: new Map(),
    settings: new Map(),
    unchecked: new Map(),
    rows: 0,
    plain: true
  }
}

export class PlainBuilder implements ChangeBuilder {
  readonly table: TableName
  readonly row: Fragment
  readonly explain = false
  readonly #findColumns: FindColumns
  readonly #columns: TableColumns | undefined
  readonly #publications: ReadonlyMap<number, Publication>
  readonly #collected: Collected

  constructor (
    table: TableName,
    findColumns: FindColumns,
    publications: ReadonlyMap<number, Publication>,
    collected: Collected,
    row = sql`t`
  ) {
    this.table = table
    this.row = row
    this.#findColumns = findColumns
    this.#columns = findColumns(table)
    this.#publications = publications
    this.#collected = collected
    if (this.#columns === undefined) this.#refuse()
  }

  get source (): RowColumns {
    return this.#collected.source
  }

  ofTable (table: TableName): PlainBuilder {
    const row = sql`t${integer(++this.#collected.rows)}`
    return new PlainBuilder(table, this.#findColumns, this.#publications, this.#collected, row)
  }

  addSource (query: Fragment): Fragment {
    return sql`(${query})`
  }

  buildSourceRows ({ fields, document, uncertainColumns }: RowsSource): Fragment {
    const columns = fields.map(({ name, type }) => {
      const isUncertain = uncertainColumns.some(({ column }) => column === name)
      return sql`${identifier(name)} ${this.#fieldType(type, isUncertain)}`
    })
    return sql`(select * from ${this.#buildRecordset(document, columns)})`
  }

  /** Builds rows of a parameter that are stored, as a source of rows. */
  buildStoredRows (columns: readonly string[], rows: StoredJson): Fragment {
    const types = columns.map(column => {
      const isUncertain = rows.uncertainColumns.some(({ column: name }) => name === column)
      const type = this.#fieldType(meetColumn(column), isUncertain)
      return sql`${identifier(column)} ${type}`
    })
    return this.#buildRecordset(rows.document, types)
  }

  /** `rows`: the value of a parameter. */
  #buildRecordset (rows: JsonDocument, columns: readonly Fragment[]): Fragment {
    const json = parameter(jsonOfParameter(rows.references[0]?.parameter as Parameter))
    return sql`pg_catalog.json_to_recordset(${json}::pg_catalog.json) as x (${
      join(columns, sql`, `)
    })`
  }

  /** The type of a field, as which PostgreSQL reads JSON exactly. */
  #fieldType (type: SourceField['type'], isUncertain: boolean): Fragment {
    if (typeof type === 'string') {
      return isUncertain && !type.startsWith('json') ? this.#refuse() : fill(casts[type], {})
    }
    const { path: { column, resultType }, as } = type
    if (resultType !== 'column') {
      if (resultType === 'json') return sql`pg_catalog.jsonb`
      return isUncertain ? this.#refuse() : sql`pg_catalog.text`
    }
    const known = this.#typeOf(column)
    if (known === undefined || (as === 'difference' && !NUMBER_OIDS.has(known.oid))) {
      return this.#refuse()
    }
    return isUncertain && !isJsonType(known) ? this.#refuse() : known.sql
  }

  evaluateOnce (conditions: readonly Fragment[]): readonly Fragment[] {
    return conditions
  }

  kindOf (column: string): ColumnKind | undefined {
    return this.#columns?.kinds.get(column)
  }

  /** Whether everything so far can be written in the plain form. */
  get plain (): boolean {
    return this.#collected.plain && this.#collected.guards.size <= MAX_TYPE_GUARDS
  }

  /** Whether the statement reads settings of earlier operations. */
  get readsSettings (): boolean {
    return this.#collected.settings.size > 0
  }

  /** OIDs of the types of `guards`. */
  get expectedTypes (): readonly number[] {
    return [...this.#collected.guards.values()].map(({ oid }) => oid)
  }

  /**
   * Returns a NULL of the type of each column that a value meets. PostgreSQL reports their types,
   * and refuses to run a prepared statement after one of them has changed.
   */
  guards (): readonly Fragment[] {
    return [...this.#collected.guards.values()].map(({ table, column }) =>
      typeGuard(table, column)
    )
  }

  /** Conditions that are true, or fail with the marker `inspect`: a referenced row is missing. */
  existenceChecks (): readonly Fragment[] {
    return [...this.#collected.unchecked.values()].map(setting =>
      sql`case when pg_catalog.current_setting(${setting}, true) operator(pg_catalog.<>) ''
        then true else ${raise('inspect')} is null end`
    )
  }

  addParameterType (column: string): void {
    const oid = this.#columns?.oids.get(column)
    if (oid === undefined) this.#refuse()
    else this.#addGuard(column, oid)
  }

  /**
   * Builds a value of a row that is stored. `always`: PostgreSQL computes it in any case, and so
   * finds that a referenced row is missing: its setting is not set, or is no JSON. `as`: how it is
   * read, see TypedAs.
   */
  buildCell (
    cell: Cell | undefined,
    column: string,
    { always, as = 'value' }: { readonly always: boolean, readonly as?: TypedAs | 'text' }
  ): Fragment {
    const type = this.#typeOf(column)
    if (type === undefined || cell === undefined || cell.kind === 'mixed') return this.#refuse()
    if (as === 'text' || (as === 'difference' && !NUMBER_OIDS.has(type.oid))) return this.#refuse()
    if (cell.kind === 'reference') return this.#typedValue(cell, type, always)
    const { value } = cell
    if (isNested(value) && !isJsonType(type)) return this.#refuse()
    const text = typeof value === 'string' && !isJsonType(type) ? value : JSON.stringify(value)
    return sql`${nullableParameter(value === null ? null : text)}::${type.sql}`
  }

  buildReference (
    reference: Reference,
    path: TypedPath,
    { as = 'value' }: ReferenceOptions
  ): Fragment {
    if (path.resultType === 'text') return this.buildReferenceText(reference)
    if (path.resultType === 'json') {
      return sql`(select ${this.#jsonValue(reference)}::pg_catalog.jsonb)`
    }
    const type = this.#typeOf(path.column, path.example)
    if (type === undefined || (as === 'difference' && !NUMBER_OIDS.has(type.oid))) {
      return this.#refuse()
    }
    // A subquery is computed once, and conditions on it can use an index.
    return sql`(select ${this.#typedValue(reference, type)})`
  }

  buildReferenceText (reference: Reference): Fragment {
    return sql`(select ${this.#textValue(reference)})`
  }

  buildJson ({ pieces, references }: JsonDocument, path: TypedPath): Fragment {
    const type = path.resultType === 'column'
      ? this.#typeOf(path.column, path.example)
      : undefined
    if (references.length > 0 || path.resultType === 'text') return this.#refuse()
    if (path.resultType === 'column' && type?.oid !== TypeOid.jsonb) return this.#refuse()
    return sql`${parameter(pieces[0] as string)}::pg_catalog.jsonb`
  }

  buildJsonNull (): Fragment {
    return this.#refuse()
  }

  buildList (): Fragment {
    return this.#refuse()
  }

  #refuse (): Fragment {
    this.#collected.plain = false
    return empty
  }

  #addGuard (column: string, oid: number): void {
    const { table } = this
    const name = [table.schema, table.name, column].join('\0')
    this.#collected.guards.set(name, { table, column, oid })
  }

  /** The type of a column that a value meets; that of an expression is not known. */
  #typeOf (column: string, expression?: Fragment): ColumnType | undefined {
    if (expression !== undefined) return undefined
    const type = this.#columns?.supported.get(column)
    if (type !== undefined) this.#addGuard(column, type.oid)
    return type
  }

  /** The value of a reference in the type of a column. */
  #typedValue (reference: Reference, type: ColumnType, checked = false): Fragment {
    if (isJsonType(type)) return sql`${this.#jsonValue(reference, { checked })}::${type.sql}`
    const { parameter: of } = reference
    if (of !== undefined) return sql`${nullableParameter(textOfParameter(of))}::${type.sql}`
    // The owner of an enum can define the cast from text.
    if (type.isEnum) return this.#refuse()
    return sql`${this.#textValue(reference, { type, checked })}::${type.sql}`
  }

  #textValue (reference: Reference, options: ReadOptions = {}): Fragment {
    const { parameter: of } = reference
    if (of !== undefined) return sql`${nullableParameter(textOfParameter(of))}::pg_catalog.text`
    return sql`(${this.#published(reference, options)}::pg_catalog.json
      operator(pg_catalog.#>>) '{}'::pg_catalog.text[])`
  }

  /** NULL is published as `null`; a text `null` has quotes. */
  #jsonValue (reference: Reference, options: ReadOptions = {}): Fragment {
    return sql`nullif(${this.#published(reference, options)}, 'null')`
  }

  #published (reference: Reference, options: ReadOptions): Fragment {
    const { parameter: of } = reference
    if (of !== undefined) return sql`${parameter(jsonOfParameter(of))}::pg_catalog.text`
    return buildFirst(
      reference,
      one => sql`pg_catalog.current_setting(${this.#readSetting(one, options)})`
    )
  }

  /** A parameter with the name of the setting of a value that is converted to `type`. */
  #readSetting (
    { source, row, column }: Reference,
    { type, checked = false }: ReadOptions
  ): Fragment {
    const publication = this.#publications.get(source)
    const value = publication?.values.find(value => value.row === row && value.output === column)
    if (publication === undefined || value === undefined) return this.#refuse()
    // The conversion of other types depends on the time zone, which a trigger can change meanwhile.
    const zoned = type?.oid === TypeOid.timestamptz || type?.oid === TypeOid.timetz
    if (zoned && value.type.oid !== type?.oid) return this.#refuse()
    const { settings, unchecked } = this.#collected
    const setting = settings.get(value.setting) ?? sharedParameter(value.setting)
    settings.set(value.setting, setting)
    if (publication.direct && !checked) unchecked.set(source, setting)
    return setting
  }
}
