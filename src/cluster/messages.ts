/**
 * Messages between the primary process and its workers (`WORKERS` from 2 on).
 */
import type { BatchFiles } from '../named/read-files.ts'
import type { DatabaseProblem } from '../transaction/database.ts'
import type { Snapshot } from '../transaction/observer.ts'

/** From the primary to a worker. */
export type ToWorker =
  | { readonly type: Question, readonly id: number }
  /** The files of the named batches: when the worker starts, and after each reload. */
  | { readonly type: 'batches', readonly files: BatchFiles }

/** Asks for the worker's metrics, or whether it can run batches. */
export type Question = 'metrics' | 'ready'

/** From a worker to the primary. */
export type ToPrimary =
  /** Asks for the named batches. */
  | { readonly type: 'starting' }
  | { readonly type: 'serving' }
  /** The worker accepts no more connections. */
  | { readonly type: 'leaving' }
  /** With the id of the question, or without one before the worker exits. */
  | { readonly type: 'metrics', readonly id?: number, readonly metrics: Snapshot }
  | { readonly type: 'ready', readonly id: number, readonly problem: DatabaseProblem | undefined }
