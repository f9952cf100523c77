/**
 * Chooses for each operation of a batch the form in which a connection runs it. The plain form is
 * used once the connection has verified it: it prepares the statement in an earlier batch, after
 * the operations, and compares the types that PostgreSQL reports with the expected ones. After DDL
 * PostgreSQL refuses the prepared statement.
 */
import type { Connection } from '../postgres/connection.ts'
import { canPrepare } from '../postgres/prepared-statements.ts'
import type { Statement } from '../sql/compile.ts'
import type { PlainStatement } from '../sql/plain.ts'
import { RecentTexts } from '../sql/text-cache.ts'
import type { AttemptVariant, CompiledBatch } from './compiled-batch.ts'

/** An operation as it is sent. */
export type OperationStatement = (Statement | PreparedPlain) & Partial<PlainStatement>

/** A plain statement that the connection has prepared. */
type PreparedPlain = PlainStatement & { readonly prepare: true }

export interface ChosenForms {
  readonly operations: readonly OperationStatement[]
  /** Plain statements to prepare and to verify. */
  readonly unverified: readonly PlainStatement[]
}

/** Texts of plain statements that PostgreSQL refuses; they are not tried again. */
const refused = new RecentTexts(1024 * 1024)

/** Records that a plain statement cannot be prepared, or that its types differ. */
export function refusePlain ({ text }: Pick<PlainStatement, 'text'>): void {
  refused.add(text)
}

export function chooseForms (
  { operations, plain }: CompiledBatch,
  connection: Connection,
  variant: AttemptVariant = {}
): ChosenForms {
  const { checkValues, restoreSession, unprepared } = variant
  if (plain === undefined || checkValues || restoreSession || variant.general || unprepared) {
    return { operations: operations(), unverified: [] }
  }
  const { names } = connection.prepared
  const { statements, links } = plain
  const isReady = (statement: PlainStatement | undefined): boolean =>
    statement !== undefined && names.has(statement.text)
  // Linked operations publish and read their values in the same form.
  const unready = new Set(links.filter((_, i) => !isReady(statements[i])))
  const unsupported = new Set(links.filter((_, i) => hasOnlyGeneral(statements[i])))
  const seen = new Set<string>()
  // By text, because several operations can have the same one.
  const unverified = new Map<string, PlainStatement>()
  const chosen = statements.map((statement, i): OperationStatement => {
    const link = links[i] as number
    if (statement === undefined || unsupported.has(link)) return operations()[i] as Statement
    if (!unready.has(link)) return { ...statement, prepare: true }
    const repeated = seen.has(statement.text)
    seen.add(statement.text)
    if (!isReady(statement) && canPrepare(connection, statement.text, unverified.size)) {
      unverified.set(statement.text, statement)
    }
    const general = operations()[i] as Statement
    // Later batches do not need it prepared, but other operations of this batch may.
    return { ...general, prepare: general.prepare && repeated }
  })
  return { operations: chosen, unverified: [...unverified.values()] }
}

function hasOnlyGeneral (statement: PlainStatement | undefined): boolean {
  return statement === undefined || refused.has(statement.text)
}
