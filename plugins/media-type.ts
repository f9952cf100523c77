/**
 * Media types of requests. The decorator `requireJson` is a hook for routes that take JSON.
 */
import type { FastifyInstance, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { headerValues } from '../schemas/http.ts'
import { failure } from '../src/errors/catalogue.ts'

/** RFC 9110 §8.3: exactly `application/json`, in UTF-8 if a charset is named. */
const JSON_TYPE = /^application\/json[ \t]*(?:;[ \t]*(?:charset=(?:utf-8|"utf-8")[ \t]*)?)?$/i

async function mediaType (app: FastifyInstance): Promise<void> {
  const requireJson: onRequestHookHandler = ({ raw, headers }, _reply, done) => {
    const [type = '', ...more] = headerValues(raw.rawHeaders, 'content-type')
    // RFC 9110 §8.4: an encoded body is not decoded here.
    const encoded = headers['content-encoding'] !== undefined
    if (more.length > 0 || encoded || !JSON_TYPE.test(type)) {
      throw failure('content_type_unsupported')
    }
    done()
  }
  app.decorate('requireJson', requireJson)
}

export default fp(mediaType, { name: 'media-type', dependencies: ['errors'] })
