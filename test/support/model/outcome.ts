/**
 * The outcomes of the model, and what ends a batch.
 */
import type { Table } from './tables.ts'

/** The rows of one operation as JSON texts. `ordered`: their order is defined. */
export interface Rows {
  readonly texts: readonly string[]
  readonly ordered: boolean
  readonly skipped?: boolean
}
export interface Failure {
  /** The SQLSTATE, or the service's code for errors without PostgreSQL. */
  readonly code: string
  /** The operation; null for a failure at COMMIT. */
  readonly index: number | null
}
export type Outcome =
  | { readonly kind: 'done', readonly results: readonly Rows[] }
  /** One of these. A batch with several errors may fail with any of them. */
  | { readonly kind: 'refused', readonly refusals: readonly Failure[] }
  /**
   * The contract does not define the result, for example which row `$op.0` is if the rows have no
   * defined order.
   */
  | { readonly kind: 'open' }

/** A connection for one transaction. */
export interface Session {
  query(text: string): Promise<readonly string[]>
}
export interface Context {
  readonly session: Session
  readonly results: readonly Rows[]
  readonly table: Table
  /** The name of a row of the table in SQL; `t` outside of `exists`. */
  readonly row: string
  readonly readOnly: boolean
  /** Whether the response holds only numbers of rows. */
  readonly minimal: boolean
}

export interface BatchEnd extends Error {
  readonly outcome: Outcome
}
export const endWith = (outcome: Outcome): BatchEnd =>
  Object.assign(new Error(outcome.kind), { outcome })
export const failWith = (code: string, index: number | null): BatchEnd =>
  endWith({ kind: 'refused', refusals: [{ code, index }] })
