/**
 * Sends the response of a batch: its rows, or its failure.
 */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { enabled } from '../../schemas/prefer.ts'
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
  const { rows, replayed, position } = result.outcome as Committed
  if (replayed === true) reply.header('idempotent-replayed', 'true')
  if (position !== undefined) reply.header('oneflight-position', position)
  const pieces = renderBody(plan, rows)
  const [piece, ...more] = pieces
  return reply
    .type('application/json; charset=utf-8')
    .header('content-length', countBytes(pieces))
    .send(more.length === 0 ? piece : Readable.from(pieces))
}
