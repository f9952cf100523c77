/**
 * `Expect: 100-continue`: a client is asked for the body only after its headers were accepted. Any
 * other expectation is refused (RFC 9110 §10.1.1).
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { failure } from '../src/errors/catalogue.ts'

async function expectContinue (app: FastifyInstance): Promise<void> {
  const { server } = app
  const waiting = new WeakSet<IncomingMessage>()
  // Without a listener Node would ask for the body before any check of the headers.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    waiting.add(request)
    server.emit('request', request, response)
  })
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    app.earlyFailures.set(request, failure('expectation_unsupported'))
    server.emit('request', request, response)
  })
  // Runs after the onRequest hooks, which check the headers.
  app.addHook('preParsing', ({ raw, headers, maxBodyBytes }, reply, _payload, done) => {
    if (waiting.has(raw) && !(Number(headers['content-length']) > maxBodyBytes)) {
      reply.raw.writeContinue()
    }
    done()
  })
}

export default fp(expectContinue, { name: 'expect-continue', dependencies: ['client-errors'] })
