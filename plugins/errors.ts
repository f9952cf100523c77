/**
 * Error responses of the main server: every failure has the same JSON form, whether a handler
 * throws it or Fastify does. The client-errors plugin responds to requests that Node refuses before
 * Fastify.
 */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { ConfigOptions } from '../schemas/config.ts'
import { Failure, failure, type FailureCode } from '../src/errors/catalogue.ts'
import {
  answerFailure,
  type DescribeFailure,
  type FailureAnswer
} from '../src/errors/envelope.ts'

async function errors (app: FastifyInstance, { config }: ConfigOptions): Promise<void> {
  const { earlyFailures } = app
  const verbose = config.ERROR_VERBOSITY === 'verbose'
  const describeFailure: DescribeFailure<FastifyRequest> = (error, request) => {
    const refused = toFailure(error, earlyFailures.get(request.raw)) ?? unexpected(error, request)
    request.access.failure = refused
    return answerFailure(refused, request.id, verbose)
  }
  app.decorate('describeFailure', describeFailure)
  // The service has no prefix. Hooks and limits of a host refuse requests with errors of its own,
  // to which its error handler responds.
  const isHosted = app.prefix !== ''
  const answer = (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    if (isHosted && isRefusal(error, request)) throw error
    return sendAnswer(reply, describeFailure(error, request))
  }
  // A hook instead of a not-found handler, which runs only after the body was parsed.
  app.addHook('onRequest', (request, reply, done) => {
    const refused = earlyFailures.get(request.raw) ??
      (hasRoute(request) ? undefined : noRoute(app, request, reply))
    // Not thrown: the route of the cors plugin was registered before the error handler, and does
    // not use it.
    if (refused === undefined) done()
    else answer(refused, request, reply)
  })
  app.setErrorHandler(answer)
}

/**
 * Fastify's `frameworkErrors`: responds to a path that cannot be decoded. Hooks and the error
 * handler do not run for it.
 */
export function sendFrameworkError (
  _error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply
): void {
  const refused = failure('http_malformed', 'The path contains an invalid percent-encoding.')
  request.log.info(
    { method: request.method, status: refused.status, code: refused.code },
    'request completed'
  )
  // No hook has checked how much of a body is still to come.
  const connection = request.server.connections.get(request.raw.socket) as { closing: boolean }
  connection.closing = true
  sendAnswer(reply.header('connection', 'close'), answerFailure(refused, request.id))
}

/** The catch-all route of the cors plugin exists only for preflights, which it has answered. */
function hasRoute ({ is404, routeOptions }: FastifyRequest): boolean {
  return !is404 && routeOptions.url?.endsWith('*') === false
}

/** Returns 405 with `Allow` when the path exists for other methods, otherwise 404. */
function noRoute (app: FastifyInstance, request: FastifyRequest, reply: FastifyReply): Failure {
  const allowed = allowedMethods(app, request.url.split(/[?#]/, 1)[0] as string)
  if (allowed.length === 0) return withPrefix(failure('not_found'), app)
  reply.header('allow', allowed.join(', '))
  return withPrefix(failure('method_not_allowed'), app)
}

/** Names the paths as clients of a host see them. */
function withPrefix ({ code, message }: Failure, { prefix }: FastifyInstance): Failure {
  const named = prefix === ''
    ? message
    : message.replaceAll('`POST /batches', `\`POST ${prefix}/batches`)
      .replaceAll('`POST /`', `\`POST ${prefix}\``)
  return failure(code as FailureCode, named)
}

/** OPTIONS is omitted: the route for preflights matches every path, existing or not. */
function allowedMethods (app: FastifyInstance, path: string): readonly string[] {
  return app.supportedMethods.filter(method =>
    method !== 'OPTIONS' && app.findRoute({ method, url: path }) !== null
  )
}

/** Returns undefined for an error that is not ours. */
function toFailure (error: unknown, earlyFailure: Failure | undefined): Failure | undefined {
  if (error instanceof Failure) return error
  switch ((error as Partial<FastifyError>).code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return failure('body_too_large')
    case 'ECONNRESET':
      return earlyFailure ??
        failure('client_closed_request', 'The client disconnected before its body was complete.')
    // Of a host: the batch runs on.
    case 'FST_ERR_HANDLER_TIMEOUT':
      return failure('commit_unknown', TIMED_OUT)
    default:
      return undefined
  }
}

const TIMED_OUT = 'The handlerTimeout of the server has passed. The batch may still be committed.'

/** An error with a status that is not ours, before anything is committed. */
function isRefusal (error: unknown, { access }: FastifyRequest): boolean {
  return typeof (error as Partial<FastifyError>).statusCode === 'number' &&
    access.committed !== true && toFailure(error, undefined) === undefined
}

const COMMITTED = 'The batch is committed, but its response could not be created.'

function unexpected (error: unknown, request: FastifyRequest): Failure {
  request.log.error(describe(error), 'internal error')
  // A body that is too large for a buffer, or that cannot be compressed, does not undo COMMIT.
  return request.access.committed === true
    ? failure('commit_unknown', COMMITTED)
    : failure('internal')
}

/** Keeps the name and the stack without the message: drivers and parsers quote data in messages. */
function describe (error: unknown): object {
  const { name, stack } = error as Error
  return {
    fault: name,
    at: String(stack).split('\n').filter(line => /^ +at /.test(line)).map(line => line.trim())
  }
}

function sendAnswer (reply: FastifyReply, { status, headers, body }: FailureAnswer): FastifyReply {
  return reply.code(status).headers(headers).send(body)
}

export default fp(errors, {
  name: 'errors',
  dependencies: ['request-log'],
  decorators: { fastify: ['earlyFailures'] }
})
