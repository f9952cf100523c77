/**
 * `POST /`: the route reads as the architecture. Its checks run in the order of the contract: media
 * type, token, options (headers alone), then the body as a whole, then every operation, then the
 * transaction.
 */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  onRequestAsyncHookHandler
} from 'fastify'
import fp from 'fastify-plugin'
import { batchSchema, type Batch } from '../../schemas/batch.ts'
import type { Config } from '../../schemas/config.ts'
import { readTtl } from '../../schemas/idempotency.ts'
import { asked } from '../../schemas/prefer.ts'
import { principalOf } from '../../src/auth/principal.ts'
import { failure } from '../../src/errors/catalogue.ts'
import { parseJson } from '../../src/json/parse.ts'
import type { Plan } from '../../src/plan/nodes.ts'
import { planBatch } from '../../src/plan/plan-batch.ts'
import { validateBody } from '../../src/plan/validate-body.ts'
import { countBytes, renderBody as render } from '../../src/response/body.ts'
import { renderTiming } from '../../src/response/server-timing.ts'
import { choosePool, type Database } from '../../src/transaction/database.ts'
import { toFailure } from '../../src/transaction/to-failure.ts'
import {
  mayCommit,
  type CompiledBatch,
  type TransactionMode
} from '../../src/transaction/attempt.ts'
import { executeBatch } from '../../src/transaction/execute.ts'
import type { Observer, Spans } from '../../src/transaction/observer.ts'
import { createReport } from '../../src/transaction/report.ts'
import { commentOn } from '../../src/sql/comment.ts'
import { compile, compileQueryPlans, emptyPublications } from '../../src/sql/compile.ts'
import type { Key } from '../../src/sql/idempotency.ts'
import { sessionStatement } from '../../src/sql/session.ts'

export interface BatchOptions {
  readonly config: Config
}

async function batch (app: FastifyInstance, { config }: BatchOptions): Promise<void> {
  const database = app.getDecorator<Database>('database')
  const observer = app.getDecorator<Observer>('observer')
  const spans = app.getDecorator<Spans>('spans')
  const limits = {
    schemas: config.DB_SCHEMAS,
    maxRows: config.MAX_ROWS,
    maxConditions: config.MAX_CONDITIONS
  }
  const defaults = {
    schemas: config.DB_SCHEMAS,
    statementTimeoutMs: config.STATEMENT_TIMEOUT_MS,
    lockTimeoutMs: config.LOCK_TIMEOUT_MS,
    idleTimeoutMs: config.IDLE_TRANSACTION_TIMEOUT_MS
  }
  const verbose = config.ERROR_VERBOSITY === 'verbose'
  const keeping = {
    ttlSeconds: readTtl(config.IDEMPOTENCY_TTL),
    idleTimeoutMs: config.IDLE_TRANSACTION_TIMEOUT_MS
  }
  const digestBody = app.getDecorator<(request: FastifyRequest, bytes: Buffer) => void>(
    'digestBody'
  )

  // Fastify's own parsers go: the one for text/plain would let any text through.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', {
    parseAs: 'buffer',
    bodyLimit: config.MAX_BODY_BYTES
  }, async (request: FastifyRequest, bytes: Buffer) => {
    digestBody(request, bytes)
    return parseJson(bytes)
  })

  app.post<{ Body: Batch }>('/', {
    schema: { body: batchSchema(config.MAX_OPS) },
    validatorCompiler: () => body => {
      const error = validateBody(body, config.MAX_OPS)
      return error === undefined || { error }
    },
    onRequest: [
      checkMediaType,
      ...['authenticate', 'readPreferences', 'readIdempotencyKey', 'admit'].map(name =>
        app.getDecorator<onRequestAsyncHookHandler>(name)
      )
    ]
  }, async (request, reply) => {
    const milestones = { asked: performance.now() - reply.elapsedTime, read: performance.now() }
    const { identity, preferences } = request
    request.access.operations = request.body.length
    const plan = planBatch(request.body, limits)
    const explaining = preferences.explain === asked
    const mode: TransactionMode = explaining ? { ...preferences, tx: 'rollback' } : preferences
    const lasting = mayCommit(mode)
    // What can commit nothing has nothing to keep: it may run as often as it is sent.
    const key = request.idempotencyKey === undefined || !lasting
      ? undefined
      : makeKey(request, keeping)
    const writes = lasting &&
      (key !== undefined || plan.operations.some(({ kind }) => kind !== 'select'))
    const maxRows = config.MAX_ROWS
    const settings = explaining ? emptyPublications(plan) : []
    const options = {
      session: identity,
      maxRows,
      minimal: preferences.return === 'minimal',
      keep: key !== undefined
    }
    const flight: CompiledBatch = {
      role: identity.role,
      session: connection =>
        sessionStatement(
          { ...identity, requestId: request.id, writes, settings },
          defaults,
          connection
        ),
      operations: explaining ? compileQueryPlans(plan, maxRows) : compile(plan, options),
      compileCarefully: explaining
        ? undefined
        : restoreSession => compile(plan, { ...options, checkValues: true, restoreSession }),
      refers: plan.referenceUses.size > 0,
      mode,
      key,
      comment: config.SQL_COMMENTS === 'on' ? commentOn(request.id, request.trace) : ''
    }
    const compiled = performance.now()
    const landed = await executeBatch(choosePool(database, mode), flight, {
      deadline: milestones.asked + config.REQUEST_TIMEOUT_MS,
      abandoned: abandonment(reply),
      onRetry (reason) {
        observer.retry(reason)
        spans.retry(request, reason)
      }
    })
    const refused = landed.kind === 'failed'
      ? toFailure(landed, plan, { anonymous: identity.anonymous, verbose, maxRows })
      : undefined
    const replayed = landed.kind === 'committed' && landed.replayed === true
    const answered = performance.now()
    // A batch that was refused for its key or had run before is none that ran.
    const ran = replayed || refused?.failure.type === 'request_error'
      ? undefined
      : createReport(plan, landed, refused?.operation, identity.role, answered)
    if (ran !== undefined && !explaining) observer.batch(ran)
    if (ran !== undefined) spans.batch(request, ran, refused?.failure)
    if (preferences.timing === asked) {
      reply.header('server-timing', renderTiming({ ...milestones, compiled, answered }, ran))
    }
    if (landed.kind !== 'committed') {
      throw refused?.failure ??
        failure('commit_unknown', landed.kind === 'unknown' && landed.gone ? GONE : undefined)
    }
    if (replayed) reply.header('idempotent-replayed', 'true')
    const pieces = answer(plan, landed.rows, lasting)
    const [piece, ...more] = pieces
    return reply.type('application/json; charset=utf-8').header(
      'content-length',
      countBytes(pieces)
    ).send(more.length === 0 ? piece : Readable.from(pieces))
  })
}

const GONE = 'The batch is committed, but the connection was lost before its answer had arrived.'

/**
 * When the batch is committed, that its answer cannot be made, e.g. for its size, is no reason to
 * say that nothing was.
 */
function answer (plan: Plan, rows: readonly Buffer[], committed: boolean): readonly Buffer[] {
  try {
    return render(plan, rows)
  } catch (error) {
    if (!committed) {
      throw failure(
        'internal',
        'The answer could not be made; nothing was to be committed.',
        undefined,
        error
      )
    }
    throw failure(
      'commit_unknown',
      'The batch is committed, but its answer could not be made.',
      undefined,
      error
    )
  }
}

/** RFC 9110 §8.3 and §8.4: exactly `application/json`, in UTF-8 or unsaid, and not encoded. */
const checkMediaType: onRequestAsyncHookHandler = async ({ raw, headers }) => {
  const sent = raw.headersDistinct['content-type'] ?? []
  const json = /^application\/json[ \t]*(?:;[ \t]*(?:charset=(?:utf-8|"utf-8"))?[ \t]*)?$/i
  if (
    sent.length !== 1 || !json.test(sent[0] as string) || headers['content-encoding'] !== undefined
  ) throw failure('content_type_unsupported')
}

/** The key with all that it is held against: whose it is, and what is asked. */
function makeKey (
  { idempotencyKey: text = '', bodyDigest = Buffer.alloc(0), identity, preferences }:
  FastifyRequest,
  keeping: Pick<Key, 'ttlSeconds' | 'idleTimeoutMs'>
): Key {
  const principal = principalOf(identity)
  const { tx, isolation, access, return: wanted } = preferences
  const fingerprint = createHash('sha256').update(bodyDigest).update(
    JSON.stringify([tx, isolation, access, wanted])
  ).digest('hex')
  const lock = createHash('sha256').update(`${principal}:${text}`).digest().readBigInt64BE()
  return { principal, text, fingerprint, lock, ...keeping }
}

/** Aborted when the client goes away before it was answered. */
function abandonment ({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) gone.abort()
  })
  return gone.signal
}

export default fp(batch, {
  name: 'batch',
  fastify: '5.x',
  encapsulate: true,
  dependencies: [
    'request-log',
    'errors',
    'metrics',
    'auth',
    'prefer',
    'idempotency-key',
    'admission',
    'database',
    'tracing'
  ]
})
