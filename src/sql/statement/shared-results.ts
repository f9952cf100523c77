/**
 * Shares results of an operation with later ones, in settings of the transaction. Each setting is a
 * JSON array: the values of one column, or whole rows, of all rows or of only the first.
 *
 * The operation that shares a result checks that the rows and columns to which later ones refer
 * exist: PostgreSQL does not evaluate the subquery of a reader if no row needs the value, so a
 * missing row would go unnoticed. If the operation returns separate rows, or the reader has `when`
 * or `$first`, the reader checks the rows in a condition of its own.
 */
import { integer, parameter, sharedParameter, sql, type Fragment } from '../../fragment/fragment.ts'
import type { Reference } from '../../plan/nodes.ts'
import type { Plan, ReferenceUse } from '../../plan/plan.ts'
import type { Check } from './checks.ts'
import { raise, raiseNumber } from './raised-error.ts'
import { countSetting, sharedSetting } from './settings.ts'

/**
 * How the values of a result are shared:
 * - `json`: as JSON, in which NULL and the JSON null are the same
 * - `text`: each as the text of its type; a column only
 * - `boxed`: each as a JSON array with one element, or null for NULL; a column only
 */
export type Form = 'json' | 'text' | 'boxed'

/** What later operations read of one operation. */
export interface SharedResult {
  /** undefined: whole rows. */
  readonly column: string | undefined
  readonly form: Form
  readonly setting: string
  /** Whether only the first row is read. */
  readonly onlyFirst: boolean
}

/** More columns are shared as whole rows, because each column renders the rows once more. */
const MAX_SHARED_COLUMNS = 4

/** What is read of one operation. */
interface Read {
  readonly columns: readonly string[]
  /** Whether rows are shared as JSON, and not columns. */
  readonly isWhole: boolean
  /** By form and column. */
  readonly results: Map<string, SharedResult>
}

/**
 * What the operations of a plan share. Those that read are compiled before those that share, which
 * share only what is read.
 */
export class SharedResults {
  readonly #uses: Plan['referenceUses']
  readonly #read = new Map<number, Read>()

  constructor ({ referenceUses }: Pick<Plan, 'referenceUses'>) {
    this.#uses = referenceUses
  }

  /** Returns the shared result with the value of a reference, and records that it is read. */
  find ({ source, column: own }: Reference, form: Form): SharedResult {
    const uses = this.#uses.get(source) as readonly ReferenceUse[]
    const read = this.#read.get(source) ?? findRead(uses)
    this.#read.set(source, read)
    const { columns, isWhole, results } = read
    const column = isWhole && form === 'json' ? undefined : own
    const key = `${form} ${column}`
    const result = results.get(key) ?? {
      column,
      form,
      setting: sharedSetting(source, `${form === 'json' ? '' : form}${
        column === undefined ? 0 : columns.indexOf(column)
      }`),
      onlyFirst: uses.every(({ reference, rows }) =>
        (column !== undefined && reference.column !== column) ||
          (reference.row !== '*' && rows <= 1))
    }
    results.set(key, result)
    return result
  }

  /** What an operation shares. */
  of (index: number): readonly SharedResult[] {
    return [...this.#read.get(index)?.results.values() ?? []]
  }
}

function findRead (uses: readonly ReferenceUse[]): Read {
  const columns = columnsRead(uses)
  const isWhole = columns.length > MAX_SHARED_COLUMNS ||
    uses.some(({ reference }) => reference.column === undefined)
  return { columns, isWhole, results: new Map() }
}

/** The member of an element that a reference reads; undefined: it reads the element. */
export function keyIn (result: SharedResult, { column }: Reference): string | undefined {
  return result.column === undefined ? column : undefined
}

/**
 * A list is as long as the result that it is read from. This many lists of full length may be read
 * from one operation, or more that are shorter. Measured: 1000 lists of 10 000 rows each, a body of
 * 10 kB, took 20 s and 1.9 GB.
 */
export const MAX_LISTS = 100

/**
 * Returns the distinct columns that later operations read from one operation. The value of a
 * `column` error is a position in this list, from 1.
 */
export function columnsRead (uses: readonly ReferenceUse[]): readonly string[] {
  return [...new Set(uses.flatMap(({ reference: { column } }) => column ?? []))]
}

/** Returns the references to lists. A `lists` error is reported at the first of them. */
export function listsRead (uses: readonly ReferenceUse[]): readonly ReferenceUse[] {
  return uses.filter(({ reference }) => reference.row === '*')
}

/** Shares the number of rows, an expression. */
export function shareCount (index: number, rows: Fragment): Check {
  return share(countSetting(index), sql`(${rows})::text`)
}

/** Shares one expression of the rows `r` in a statement that aggregates them. */
export function shareValues ({ setting, onlyFirst }: SharedResult, value: Fragment): Check {
  const all = sql`pg_catalog.json_agg(${value})`
  const shared = onlyFirst
    ? sql`pg_catalog.json_build_array(${all} operator(pg_catalog.->) 0)`
    : sql`coalesce(${all}, '[]')`
  return share(setting, sql`${shared}::pg_catalog.text`)
}

/** Shares a value of the only row. */
export function shareValue ({ setting }: SharedResult, value: Fragment): Fragment {
  return set(setting, sql`pg_catalog.json_build_array(${value})::pg_catalog.text`)
}

/**
 * The JSON array of a shared result. `mayBeAbsent`: NULL if the operation had no row; see
 * buildExistenceCheck.
 */
export function readShared (setting: string, mayBeAbsent: boolean): Fragment {
  const name = sharedParameter(setting)
  return mayBeAbsent
    ? sql`nullif(pg_catalog.current_setting(${name}, true), '')::pg_catalog.json`
    : sql`pg_catalog.current_setting(${name})::pg_catalog.json`
}

/**
 * Splits the shared JSON into its elements once. To parse the text for each reference is slower
 * (measured: 1000 references to 10 000 rows took 44 s, this way 1.6 s).
 */
export function sharedElements (setting: string, mayBeAbsent: boolean): Fragment {
  return sql`select array(select element from json_array_elements(${
    readShared(setting, mayBeAbsent)
  }) as elements (element)) as rows`
}

/**
 * A condition that is true, or raises `missing`: the operation `source`, which returns its row at
 * once, had none. `setting`: one of that operation.
 */
export function buildExistenceCheck (source: number, setting: string): Fragment {
  const name = sharedParameter(setting)
  return sql`case when pg_catalog.current_setting(${name}, true) operator(pg_catalog.<>) ''
    then true else ${raise('missing', source)} is null end`
}

/** Sets a setting of the transaction. It is a check that never fails. */
function share (setting: string, value: Fragment): Check {
  return { when: sql`${set(setting, value)} is null`, then: sql`null` }
}

function set (setting: string, value: Fragment): Fragment {
  return sql`pg_catalog.set_config(${parameter(setting)}, ${value}, true)`
}

/** Whether so many lists may be read from so many rows. */
export function mayReadLists (lists: number, rows: number, maxRows: number): boolean {
  return lists <= MAX_LISTS || rows <= MAX_LISTS * maxRows / lists
}

/** Checks that lists which are read from this number of rows are not too long. */
export function buildListCheck (
  uses: readonly ReferenceUse[],
  rows: Fragment,
  maxRows: number
): readonly Check[] {
  const lists = listsRead(uses).length
  if (mayReadLists(lists, maxRows, maxRows)) return []
  return [{
    when: sql`${rows} > ${integer(MAX_LISTS * maxRows / lists)}`,
    then: raiseNumber('lists', rows)
  }]
}

/**
 * Returns settings that hold no rows. PostgreSQL plans a statement without running those before it,
 * but the planner may read the settings.
 */
export function emptyResults (
  plan: Pick<Plan, 'referenceUses' | 'counted'>
): ReadonlyArray<readonly [name: string, value: string]> {
  const results = new SharedResults(plan)
  return [
    ...new Set([...plan.referenceUses.values()].flat()
      .map(({ reference }) => results.find(reference, 'json').setting))
      .values().map(setting => [setting, '[]'] as const),
    ...[...plan.counted].map(index => [countSetting(index), '0'] as const)
  ]
}
