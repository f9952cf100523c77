/**
 * Every answer of the main server that is not 2xx, in the one envelope: what handlers throw and
 * what Fastify refuses by itself. What Node's HTTP server refuses before Fastify hears of it is in
 * http.ts.
 */
import type { IncomingMessage } from 'node:http'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Failure, failure } from '../src/errors/catalogue.ts'
import { answerFailure } from '../src/errors/envelope.ts'

async function errors (app: FastifyInstance): Promise<void> {
  const refusalOf = app.getDecorator<(request: IncomingMessage) => Failure | undefined>('refusalOf')
  // A hook and no handler: those for unknown paths run after the body was parsed, and nobody asked
  // for it.
  app.addHook('onRequest', async (request, reply) => {
    const refused = refusalOf(request.raw) ??
      (isNowhere(request) ? noRoute(app, request, reply) : undefined)
    // Not thrown: the route of the cors plugin is older than the error handler, and has none.
    if (refused !== undefined) return answer(refused, request, reply)
  })
  const answer = (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const refused = toFailure(error, request, refusalOf(request.raw))
    request.access.failure = refused
    // Fastify closes the connection after every body that was refused; only one that has not
    // arrived is a reason. Where Fastify said nothing, Node does, and would not any more.
    if (request.raw.complete && reply.hasHeader('connection')) reply.removeHeader('connection')
    return sendFailure(refused, request, reply)
  }
  app.setErrorHandler(answer)
}

/**
 * Fastify's `frameworkErrors`: a path that cannot be decoded never reaches a hook or the error
 * handler.
 */
export function sendFrameworkError (
  _error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply
): void {
  const refused = failure('http_malformed', 'The path cannot be decoded.')
  request.log.info(
    { method: request.method, status: refused.status, code: refused.code },
    'request completed'
  )
  // No hook runs here, so nobody looked at how much of a body is to come.
  sendFailure(refused, request, reply.header('connection', 'close'))
}

/**
 * The route of the cors plugin, for every path, is no more than what preflights need, and these
 * have been answered.
 */
function isNowhere ({ is404, routeOptions }: FastifyRequest): boolean {
  return is404 || routeOptions.url === '*'
}

/** Nothing is there, or not for this method. */
function noRoute (app: FastifyInstance, request: FastifyRequest, reply: FastifyReply): Failure {
  const allowed = methodsOf(app, request.url.split(/[?#]/, 1)[0] as string)
  if (allowed.length === 0) return failure('not_found')
  reply.header('allow', allowed.join(', '))
  return failure('method_not_allowed')
}

/** OPTIONS is for preflights alone, and then for every path: it says of none that it is there. */
function methodsOf (app: FastifyInstance, path: string): readonly string[] {
  return app.supportedMethods.filter(method =>
    method !== 'OPTIONS' && app.findRoute({ method, url: path }) !== null
  )
}

function toFailure (
  error: unknown,
  request: FastifyRequest,
  refused: Failure | undefined
): Failure {
  if (error instanceof Failure) return error
  switch ((error as Partial<FastifyError>).code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return failure('body_too_large')
    case 'ECONNRESET':
      return refused ??
        failure('client_closed_request', 'The client went away before its body had arrived.')
    default:
      request.log.error(describe(error), 'a fault of the service')
      return failure('internal', undefined, undefined, error)
  }
}

/** Where it happened, not what was said: messages of drivers and parsers quote data. */
function describe (error: unknown): object {
  const { name, stack } = error as Error
  return {
    fault: name,
    at: String(stack).split('\n').filter(line => /^ +at /.test(line)).map(line => line.trim())
  }
}

function sendFailure (
  refused: Failure,
  request: FastifyRequest,
  reply: FastifyReply
): FastifyReply {
  const { status, headers, body } = answerFailure(refused, request.id)
  return reply.code(status).headers(headers).send(body)
}

export default fp(errors, { name: 'errors', fastify: '5.x', dependencies: ['tracing', 'http'] })
