/**
 * Sends the response of a batch: its rows, or its failure.
 */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { enabled } from '../../schemas/prefer.ts'
import { failure } from '../errors/catalogue.ts'
import type { Plan } from '../plan/nodes.ts'
import type { Committed } from '../transaction/outcome.ts'
import type { BatchResult } from '../transaction/run-batch.ts'
import { countBytes, renderBody } from './body.ts'
import { renderTiming } from './server-timing.ts'

export interface Answer {
  readonly plan: Plan
  readonly result: BatchResult
  /** When the request came and when its body was read: times of performance.now(). */
  readonly times: { readonly received: number, readonly read: number }
}

/** Sends the response, or throws the failure. */
export function respond (reply: FastifyReply, { plan, result, times }: Answer): FastifyReply {
  const { report, compiledAt, answeredAt } = result
  if (reply.request.preferences.timing === enabled) {
    const milestones = { ...times, compiled: compiledAt, answered: answeredAt }
    reply.header('server-timing', renderTiming(milestones, report))
  }
  if (result.failure !== undefined) throw result.failure
  const { rows, replayed } = result.outcome as Committed
  if (replayed === true) reply.header('idempotent-replayed', 'true')
  const pieces = render(plan, rows, result.mayCommit)
  const [piece, ...more] = pieces
  return reply
    .type('application/json; charset=utf-8')
    .header('content-length', countBytes(pieces))
    .send(more.length === 0 ? piece : Readable.from(pieces))
}

/** A body that cannot be made, e.g. because of its size, does not undo a COMMIT. */
function render (plan: Plan, rows: readonly Buffer[], committed: boolean): readonly Buffer[] {
  try {
    return renderBody(plan, rows)
  } catch (error) {
    if (!committed) throw failure('internal', NOT_COMMITTED, undefined, error)
    throw failure('commit_unknown', COMMITTED, undefined, error)
  }
}

const NOT_COMMITTED = 'The response could not be created; nothing was to be committed.'
const COMMITTED = 'The batch is committed, but its response could not be created.'
