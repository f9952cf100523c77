/**
 * What the processes of one service say to each other when there are several (`WORKERS`), beside
 * signals. Nothing is sent or decided here.
 */
import type { Snapshot } from '../transaction/observer.ts'

/** The first process to a worker. */
export interface ToWorker {
  readonly word: Question
  readonly id: number
}

/** What has it counted; does the database answer it. */
export type Question = 'metrics' | 'reachable'

/** A worker to the first process. */
export type ToPrimary =
  | { readonly word: 'serving' }
  /** It takes no new connection from now on, for whatever reason. */
  | { readonly word: 'leaving' }
  /** With the id of the question; at its end without being asked. */
  | { readonly word: 'metrics', readonly id?: number, readonly metrics: Snapshot }
  | { readonly word: 'reachable', readonly id: number, readonly reachable: boolean }
