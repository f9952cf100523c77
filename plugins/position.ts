/**
 * `Oneflight-Position`: what a read on the replica must see. The decorator `readPosition` is a hook
 * that checks the header before the body is read.
 */
import type { FastifyInstance, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { headerValues, positionPattern } from '../schemas/http.ts'
import { failure } from '../src/errors/catalogue.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** undefined without the header. */
    position: string | undefined
  }
}

async function position (app: FastifyInstance): Promise<void> {
  app.decorateRequest('position', undefined)
  app.decorate<onRequestHookHandler>('readPosition', (request, _reply, done) => {
    const [sent, ...more] = headerValues(request.raw.rawHeaders, 'oneflight-position')
    if (more.length > 0 || (sent !== undefined && !positionPattern.test(sent))) {
      throw failure('position_invalid')
    }
    request.position = sent
    done()
  })
}

export default fp(position, { name: 'position', dependencies: ['errors'] })
