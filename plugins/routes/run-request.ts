/**
 * Runs the batch of a request, and tells the log, the metrics and the trace how it ended. All
 * routes that run batches share one runner, in which large bodies wait for each other.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../schemas/config.ts'
import type { PlannedBatch } from '../../src/plan/plan-batch.ts'
import type { Database, Observer, Spans } from '../../src/transaction/decorators.ts'
import { batchSettings, runBatch } from '../../src/transaction/run-batch.ts'
import { LargeBodies, type BodyWork } from './large-bodies.ts'
import { clientClosed, type Answer } from './respond.ts'

export interface Exchange {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly bytes: Buffer
  readonly work: BodyWork
  readonly times: Answer['times']
}

export type BatchRunner = ReturnType<typeof createRunner>

type Planning = () => Promise<PlannedBatch> | PlannedBatch

export function createRunner (app: FastifyInstance, config: Config, mayBegin: () => boolean) {
  const observer = app.getDecorator<Observer>('observer')
  const spans = app.getDecorator<Spans>('spans')
  const database = app.getDecorator<Database>('database')
  const settings = batchSettings(config)
  const large = new LargeBodies()
  return {
    /** Waits until the work for this many bytes may start. */
    startWork: (bytes: number): Promise<BodyWork> => large.start(bytes),
    /** Waits until the work for the body may start. */
    async receive (request: FastifyRequest, reply: FastifyReply): Promise<Exchange> {
      const received = performance.now() - reply.elapsedTime
      const bytes = request.body as Buffer
      const work = await large.start(bytes.length)
      return { request, reply, bytes, work, times: { received, read: performance.now() } }
    },
    /**
     * Plans and runs a batch, and ends the work for its body. Throws the failure of planning; that
     * of running is in the answer.
     */
    async run (exchange: Exchange, plan: Planning): Promise<Answer> {
      const { request, reply, work, times } = exchange
      // Also if the client disconnects: its transaction runs on.
      const leave = request.keepPlace?.()
      try {
        const batch = await plan()
        request.access.operations = batch.plan.operations.length
        await work.next()
        const running = runBatch(batch, request, {
          database,
          settings,
          deadline: times.received + config.REQUEST_TIMEOUT_MS,
          clientClosed: clientClosed(reply),
          mayBegin,
          onReplicaBehind: () => observer.replicaBehind(),
          onRetry (reason) {
            observer.retry(reason)
            spans.retry(request, reason)
          }
        })
        work[Symbol.dispose]()
        const result = await running
        const { mayCommit, report, isQueryPlan, failure } = result
        request.access.committed = mayCommit && failure === undefined
        if (report !== undefined) {
          if (!isQueryPlan) observer.batch(report, request.namedBatch?.name)
          spans.batch(request, report, failure)
        }
        return { plan: batch.plan, result, times }
      } finally {
        work[Symbol.dispose]()
        leave?.()
      }
    }
  }
}
