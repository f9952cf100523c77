/**
 * What a statement needs besides its values, which the builders of its tables collect together.
 */
import { integer, join, sql, type Fragment } from '../../fragment/fragment.ts'
import type { CallNode } from '../../plan/nodes.ts'
import { raise } from '../statement/raised-error.ts'
import type { FindFunction } from './function-types.ts'
import { compareTypes, type FindColumns, type Key, type TypeCheck } from './column-types.ts'
import type { RowColumns } from './column.ts'

/** What is known about a statement before its values are built. */
export interface StatementFacts {
  /** See sourceColumns. */
  readonly source: RowColumns
  /** These four: see CompileOptions. */
  readonly distributed: boolean
  readonly checkValues: boolean
  readonly restoreSession: boolean
  readonly explain: boolean
  /** The operation, if it calls a function. */
  readonly call: CallNode | undefined
  readonly findColumns: FindColumns
  readonly findFunction: FindFunction
}

export class StatementNeeds {
  readonly facts: StatementFacts
  /** Whether the service does not know the type of a parameter, or the function that is called. */
  hasUnknownTypes: boolean
  /** Whether a value may differ from its JSON, which the statement checks. */
  needsValueChecks = false
  /** Values that PostgreSQL converts and may refuse, also if no row needs them. */
  readonly converted: Fragment[] = []
  #rows = 0
  /** The queries of the CTEs `c0`, `c1`, … */
  readonly #queries: Fragment[] = []
  readonly #typeChecks = new Set<TypeCheck>()
  readonly #keyChecks: Fragment[] = []

  constructor (facts: StatementFacts) {
    this.facts = facts
    const { call, findFunction } = facts
    this.hasUnknownTypes = call !== undefined && findFunction(call.table) === undefined
  }

  /** Returns a name for a row of another table. */
  nameRow (): Fragment {
    this.#rows++
    return sql`t${integer(this.#rows)}`
  }

  /** Adds a CTE with the rows of a query, and returns its name. */
  addRows (query: Fragment): Fragment {
    return sql`c${integer(this.#queries.push(query) - 1)}`
  }

  /** The number of queries of addRows so far. */
  get rows (): number {
    return this.#queries.length
  }

  /**
   * Whether values that depend on no row are CTEs. If the session is restored they are computed
   * before the operation starts, whose triggers may change the session. On Citus the coordinator
   * computes them, because workers do not have the settings of earlier operations.
   */
  get computesFirst (): boolean {
    return this.facts.restoreSession || this.facts.distributed
  }

  /** Returns a query as a source of rows, which depend on no row of the statement. */
  computeFirst (query: Fragment): Fragment {
    return this.computesFirst ? this.addRows(query) : sql`(${query})`
  }

  /** The CTEs of addRows. */
  rowCtes (): readonly Fragment[] {
    const as = this.computesFirst ? sql`as materialized` : sql`as`
    return this.#queries.map((query, i) => sql`c${integer(i)} ${as} (${query})`)
  }

  /** Conditions that are true, and compute the rows of addRows. */
  rowsComputed (): readonly Fragment[] {
    return this.#queries.map((_, i) =>
      sql`(select pg_catalog.count(*) from c${integer(i)}) is not null`
    )
  }

  /** Registers that the statement depends on the type of a column. */
  addTypeCheck (check: TypeCheck): void {
    this.#typeChecks.add(check)
  }

  /** Registers that the statement depends on the columns of a constraint. */
  addKeyCheck ({ isSame }: Key): void {
    this.#keyChecks.push(isSame)
  }

  /** Whether a worker of Citus can check the types, of which those of users have other OIDs. */
  get checksByName (): boolean {
    return [...this.#typeChecks].every(({ byName }) => byName !== undefined)
  }

  /**
   * Returns a condition that is true, or raises `types`: a column that a value meets has another
   * type than the one that the service has read, or a constraint has other columns. It contains no
   * column, so PostgreSQL evaluates it before it reads a row. Nothing if no value meets a column.
   * `byName`: on a worker of Citus.
   */
  typeChecks ({ byName }: { readonly byName: boolean }): readonly Fragment[] {
    const same = [...compareTypes([...this.#typeChecks], { byName }), ...this.#keyChecks]
    if (same.length === 0) return []
    return [sql`case when ${join(same, sql` and `)} then true
      else ${raise('types')} is null end`]
  }
}
