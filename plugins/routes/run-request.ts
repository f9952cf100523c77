/**
 * Runs the batch of a request, and tells the log, the metrics and the trace how it ended. All
 * routes that run batches share one runner, in which large bodies take turns.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../schemas/config.ts'
import type { Pieces } from '../../src/json/parse.ts'
import type { Plan } from '../../src/plan/plan.ts'
import type { PlannedBatch } from '../../src/plan/plan-batch.ts'
import { Turns, type Turn } from '../../src/plan/work.ts'
import type { Database, Observer, Spans } from '../../src/transaction/decorators.ts'
import { findRowMembers } from '../../src/transaction/find-row-members.ts'
import { batchSettings, runBatch, type BatchResult } from '../../src/transaction/run-batch.ts'
import { clientClosed, type Answer } from './respond.ts'

/** A request whose body was received. */
export interface Exchange {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly bytes: Buffer
  readonly turn: Turn
  readonly times: Answer['times']
}

type RowMembersFound = ReturnType<typeof findRowMembers>

export interface BatchRunner {
  /** Waits for the turn of this many bytes. */
  readonly takeTurn: (bytes: number) => Promise<Turn>
  /** Waits for the turn of the body. */
  receive(request: FastifyRequest, reply: FastifyReply): Promise<Exchange>
  /** Finds what the statements of an upload take of its rows. Throws if there is no connection. */
  findRowMembers(plan: Plan, received: number): RowMembersFound
  /** Plans and runs a batch. Throws the failure of planning; that of running is in the answer. */
  run(exchange: Exchange, planning: Pieces<PlannedBatch>): Promise<Answer>
}

export function createRunner (app: FastifyInstance, config: Config): BatchRunner {
  const observer = app.getDecorator<Observer>('observer')
  const spans = app.getDecorator<Spans>('spans')
  const database = app.getDecorator<Database>('database')
  const mayBegin = app.getDecorator<() => boolean>('mayBegin')
  const settings = batchSettings(config)
  const turns = new Turns()
  const takeTurn = (bytes: number): Promise<Turn> => turns.take(bytes)
  return {
    takeTurn,
    async receive (request, reply) {
      const received = performance.now() - reply.elapsedTime
      const bytes = request.body as Buffer
      const turn = await takeTurn(bytes.length)
      return { request, reply, bytes, turn, times: { received, read: performance.now() } }
    },
    async findRowMembers (plan, received) {
      return await findRowMembers(plan, database, received + config.REQUEST_TIMEOUT_MS)
    },
    async run ({ request, reply, turn, times }, planning) {
      // Also if the client disconnects: its transaction runs on.
      const leave = request.place?.keep()
      try {
        const batch = await turn.finish(planning)
        request.access.operations = batch.plan.operations.length
        const result = await runBatch(batch, request, {
          database,
          settings,
          deadline: times.received + config.REQUEST_TIMEOUT_MS,
          clientClosed: clientClosed(reply),
          mayBegin,
          turn,
          onReplicaBehind: () => observer.replicaBehind(),
          onRetry (reason) {
            observer.retry(reason)
            spans.retry(request, reason)
          }
        })
        observe(request, result, { observer, spans })
        return { plan: batch.plan, result, times }
      } finally {
        leave?.()
      }
    }
  }
}

/** Tells the log, the metrics and the trace how a batch ended. */
function observe (
  request: FastifyRequest,
  { mayCommit, report, isQueryPlan, failure }: BatchResult,
  { observer, spans }: { readonly observer: Observer, readonly spans: Spans }
): void {
  request.access.committed = mayCommit && failure === undefined
  if (report === undefined) return
  const { namedBatch } = request
  if (!isQueryPlan) {
    observer.batch(report, namedBatch?.name)
  }
  spans.batch(request, report, failure)
}
