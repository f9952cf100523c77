/**
 * The types on which a batch depends: those of its tables, and of the functions that it calls. Its
 * statements are compiled for what is known of them, and again after it has changed.
 */
import { identifier, join, render, sql, type Fragment } from '../fragment/fragment.ts'
import { tableKey } from '../plan/name.ts'
import type { TableName } from '../plan/nodes.ts'
import type { NamedPart, Plan } from '../plan/plan.ts'
import { inlinesFunction } from './citus/citus.ts'
import type { LearnedTypes, TypesQuery } from './frame/compiled-batch.ts'
import type { Statement } from './statement/statement.ts'
import { columnTypesQuery, type ColumnTypes, type TableColumns } from './values/column-types.ts'
import { SYSTEM_COLUMNS } from './values/column.ts'
import { functionTypesQuery, type FunctionTypes } from './values/function-types.ts'

/** What is known of the types of one database. */
interface KnownTypes {
  readonly columnTypes: ColumnTypes
  readonly functionTypes: FunctionTypes
}

export class BatchTypes implements LearnedTypes {
  #compiled: readonly Statement[] | undefined
  readonly #plan: Plan
  readonly #cache: KnownTypes
  /** Whether the database is Citus. */
  readonly #isCitus: boolean
  /** What was known when the statements were compiled. */
  #types: readonly unknown[] = []
  /** The keys of tables that did not exist when they were read for this batch. */
  #absent: ReadonlySet<string> = new Set()

  constructor (plan: Plan, cache: KnownTypes, isCitus: boolean) {
    this.#plan = plan
    this.#cache = cache
    this.#isCitus = isCitus
  }

  /** What is known of each table and function; each is the same object until it changes. */
  get #known (): readonly unknown[] {
    const { columnTypes, functionTypes } = this.#cache
    return [
      ...this.#plan.tables.map(table => columnTypes.lookup(table)),
      ...this.#functions.map(name => functionTypes.lookup(name))
    ]
  }

  get #functions (): readonly TableName[] {
    return this.#plan.operations.filter(({ kind }) => kind === 'call').map(({ table }) => table)
  }

  /** Returns the statements, and compiles them first if that is needed. */
  compile (compileNow: (types: readonly unknown[]) => readonly Statement[]): readonly Statement[] {
    if (this.#compiled === undefined) {
      this.#types = this.#known
      this.#compiled = compileNow(this.#types)
    }
    return this.#compiled
  }

  renew (): boolean {
    const known = this.#known
    const changed = this.#types.some((type, i) => type !== known[i])
    if (changed) this.#compiled = undefined
    return changed
  }

  get tables (): readonly TableName[] {
    return this.#plan.tables
  }

  unknownName (): NamedPart | undefined {
    // To look up a table for each of its columns would take most of the time.
    let table: TableName | undefined
    let columns: TableColumns | undefined
    return this.#plan.names.find(part => {
      if (part.table !== table) {
        table = part.table
        columns = this.#cache.columnTypes.lookup(table)
      }
      return columns === undefined
        ? part.column === undefined && this.#absent.has(tableKey(part.table))
        : !mayHave(columns, part)
    })
  }

  unknown (): TypesQuery | undefined {
    return this.#queryIf((cache, name) => cache.isUnknown(name))
  }

  aging (): TypesQuery | undefined {
    return this.#queryIf((cache, name) => cache.startsToAge(name))
  }

  all (): TypesQuery {
    return this.#query(this.#plan.tables, this.#functions)
  }

  #queryIf (
    isRead: (cache: ColumnTypes | FunctionTypes, name: TableName) => boolean
  ): TypesQuery | undefined {
    const { columnTypes, functionTypes } = this.#cache
    const tables = this.#plan.tables.filter(table => isRead(columnTypes, table))
    const functions = this.#functions.filter(name => isRead(functionTypes, name))
    return tables.length + functions.length === 0 ? undefined : this.#query(tables, functions)
  }

  #query (tables: readonly TableName[], functions: readonly TableName[]): TypesQuery {
    const { columnTypes, functionTypes } = this.#cache
    const inlines = this.#isCitus ? inlinesFunction : undefined
    const columns: readonly Fragment[] = [
      ...tables.length === 0
        ? []
        : [sql`(${columnTypesQuery(tables, inlines)}) as ${COLUMNS}`],
      ...functions.length === 0 ? [] : [sql`(${functionTypesQuery(functions)}) as ${FUNCTIONS}`]
    ]
    return {
      text: render(sql`select ${join(columns)}`).text,
      remember: ({ columns, functions }) => {
        if (typeof columns === 'string') {
          this.#absent = new Set(columnTypes.remember(columns).map(tableKey))
        }
        if (typeof functions === 'string') functionTypes.remember(functions)
      }
    }
  }
}

/** Whether a table has a column, or is itself named. */
function mayHave (columns: TableColumns, { column, isStored }: NamedPart): boolean {
  if (column === undefined || columns.has(column) || SYSTEM_COLUMNS.has(column)) return true
  return !isStored && columns.functions?.has(column) === true
}

const COLUMNS = identifier('columns')
const FUNCTIONS = identifier('functions')
