/**
 * Finds the row of `values` that violates a constraint. PostgreSQL names the constraint and not the
 * row. If there are several rows, the key in the detail of the error shows it, if exactly one of
 * them has this key: `Key (sku)=(apple) already exists.`
 */
import type { DatabaseError } from '../errors/database-error.ts'
import { isValueError, SqlState } from '../errors/sqlstates.ts'
import { textOf, type Json, type JsonObject } from '../json/parse.ts'
import { assignmentsOf, storedRows, type KnownValues } from '../plan/find-value.ts'
import type { Assignment, ColumnOperand, PlanNode } from '../plan/nodes.ts'

/** The conditions whose detail shows one key. That of an exclusion constraint shows two. */
const WITH_KEY: ReadonlySet<string> = new Set([
  SqlState.unique_violation,
  SqlState.foreign_key_violation,
  SqlState.restrict_violation
])

/** The conditions that name a constraint or a column. */
const VIOLATIONS: ReadonlySet<string> = new Set([
  SqlState.not_null_violation,
  SqlState.check_violation,
  SqlState.exclusion_violation,
  ...WITH_KEY
])

/** What is known about the values and the table of an operation. */
export interface KnownRows extends KnownValues {
  /** Whether other rows may refer to those of the table by these columns. */
  readonly mayBeReferred: (columns: readonly string[]) => boolean
}

export interface FoundRow {
  /** Its position in `values`. */
  readonly position: number
  /** It is the only one. */
  readonly isOnly: boolean
}

/** Returns the row; undefined: it is not known. */
export function findRow (
  error: DatabaseError,
  node: PlanNode,
  known: KnownRows
): FoundRow | undefined {
  const { code, where, detail = '' } = error
  // An error with a context is one inside a function.
  if (where !== undefined) return undefined
  const isValue = isValueError(code)
  if (!isValue && !VIOLATIONS.has(code)) return undefined
  const rows = storedRows(node, known)
  const [first] = rows
  if (rows.length === 1 && first !== undefined) {
    return isValue && setsValues(node) ? undefined : { position: first.position, isOnly: true }
  }
  const key = WITH_KEY.has(code) ? readKey(detail) : undefined
  const isKnown = key !== undefined && !isComputed(node, key) &&
    !mayBeEarlier(node, key, { ...known, code })
  const found = isKnown ? rows.filter(({ values }) => hasKey(values, key)) : []
  const [row] = found
  return row === undefined || found.length > 1
    ? undefined
    : { position: row.position, isOnly: false }
}

/** Whether an insert has values beside its rows: they would be taken for those of a row. */
function setsValues (node: PlanNode): boolean {
  if (node.kind !== 'insert') return false
  const { target, update: { set = [], where = [] } = {} } = node.conflict ?? {}
  const isPartial = target !== undefined && 'where' in target && target.where.length > 0
  return isPartial || where.length > 0 || set.some(({ modifier }) => modifier !== '$excluded')
}

interface Key {
  readonly columns: readonly string[]
  /** The values, and the rest of the detail. */
  readonly text: string
}

/** PostgreSQL leaves the key out if row-level security or a missing privilege hides it. */
function readKey (detail: string): Key | undefined {
  const start = detail.indexOf('(')
  const end = detail.indexOf(')=(')
  if (start < 0 || end < 0) return undefined
  const columns = detail.slice(start + 1, end).split(', ').map(unquote)
  return { columns, text: detail.slice(end + 3) }
}

function unquote (name: string): string {
  return name.replace(/^"(.*)"$/s, '$1').replaceAll('""', '"')
}

/** Whether a value of the key may be another one than that of the row. */
function isComputed (node: PlanNode, key: Key): boolean {
  return changesOf(node, key).some(({ column, modifier, operand }) => node.kind === 'insert'
    ? modifier !== '$excluded' || (operand as ColumnOperand).path.column !== column
    : modifier !== '$value')
}

/** The new values of columns of the key, without those of the rows of an insert. */
function changesOf (node: PlanNode, { columns }: Key): readonly Assignment[] {
  return assignmentsOf(node).filter(({ column }) => columns.includes(column))
}

/**
 * Whether the key may be that of a row before its change, to which others still refer. It can be
 * the new key of another row.
 */
function mayBeEarlier (
  node: PlanNode,
  key: Key,
  { code, mayBeReferred }: Pick<KnownRows, 'mayBeReferred'> & Pick<DatabaseError, 'code'>
): boolean {
  return code !== SqlState.unique_violation && changesOf(node, key).length > 0 &&
    mayBeReferred(key.columns)
}

function hasKey (row: JsonObject, { columns, text }: Key): boolean {
  const values = columns.map(column => row[column])
  const key = `${values.map(value => textOf((value ?? null) as Json)).join(', ')})`
  return text.startsWith(key) && !text.includes(')', key.length)
}
