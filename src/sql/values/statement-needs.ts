/**
 * What a statement needs besides its values. The builders of all its tables add to it.
 */
import { AND, integer, join, sql, type Fragment } from '../../fragment/fragment.ts'
import type { CallNode } from '../../plan/nodes.ts'
import { raise, raiseIssue } from '../statement/raised-error.ts'
import type { FindFunction } from './function-types.ts'
import {
  MAX_COPIES,
  buildParsedCheck,
  compareTypes,
  type Column,
  type FindColumns,
  type Key
} from './column-types.ts'
import type { RowColumns } from './column.ts'
import type { RefusedHere } from '../statement/slot.ts'
import { compareWritten, hasParts } from './written-types.ts'

/** What is known about a statement before its values are built. */
export interface StatementFacts {
  /** See sourceColumns. */
  readonly source: RowColumns
  /** These two: see CompileOptions. */
  readonly plain: boolean
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
  /**
   * Conditions of the whole statement, which are true or fail. PostgreSQL evaluates none of
   * a change if it finds that no partition of the table can have the rows.
   */
  readonly conditions: Fragment[] = []
  /** Values that PostgreSQL converts and may refuse, also if no row needs them. */
  readonly converted: Fragment[] = []
  /** Values of documents that their types refuse. */
  readonly refused: RefusedHere[] = []
  /** Values that the statement refuses while it runs. */
  readonly issues: RefusedHere[] = []
  #rows = 0
  /** The queries of the CTEs `c0`, `c1`, … */
  readonly #queries: Fragment[] = []
  /** The columns on whose types it depends. */
  readonly #columns = new Set<Column>()
  readonly #keyChecks: Fragment[] = []
  /** The columns that values were written for, and whether these are stored. */
  readonly #written = new Map<Column, boolean>()

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

  /** The CTEs of addRows. */
  rowCtes (): readonly Fragment[] {
    const as = this.facts.plain ? sql`as materialized` : sql`as`
    return this.#queries.map((query, i) => sql`c${integer(i)} ${as} (${query})`)
  }

  /** Builds an expression that fails: a value does not fit. `position`: see raiseIssue. */
  raiseIssue (issue: RefusedHere, position?: Fragment): Fragment {
    return raiseIssue(this.issues.push(issue) - 1, position)
  }

  /** Registers that the statement depends on the type of a column. */
  addColumn (column: Column): void {
    this.#columns.add(column)
  }

  /** Registers that a value is written for a column. `stored`: for its length and precision. */
  addWritten (column: Column, stored: boolean): void {
    if (!hasParts(column.type, stored)) return
    this.#written.set(column, stored || this.#written.get(column) === true)
  }

  /** Registers that the statement depends on the columns of a constraint. */
  addKeyCheck ({ isSame }: Key): void {
    this.#keyChecks.push(isSame)
  }

  /**
   * Returns conditions that a column which a value meets has the type that the service has read,
   * and a constraint its columns. If not, PostgreSQL refuses the statement, or a condition raises
   * `types`. They contain no column, so PostgreSQL evaluates them before it reads a row. Nothing if
   * no value meets a column.
   */
  typeChecks (): readonly Fragment[] {
    const parsed: Fragment[] = []
    const evaluated: Column[] = []
    // PostgreSQL checks built-in types while it plans.
    const areParsed = this.#columns.size <= MAX_COPIES
    for (const column of this.#columns) {
      const condition = areParsed ? buildParsedCheck(column) : undefined
      if (condition === undefined) evaluated.push(column)
      else parsed.push(condition)
    }
    const written = compareWritten(this.#written)
    const same = [
      ...compareTypes(evaluated),
      ...written.evaluated,
      ...this.#keyChecks
    ]
    return [
      ...parsed,
      ...written.parsed,
      ...same.length === 0
        ? []
        : [sql`case when ${join(same, AND)} then true
            else ${raise('types')} is null end`]
    ]
  }
}
