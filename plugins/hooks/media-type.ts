/**
 * Media types of requests. `requireJson` is a hook for routes that take JSON, `requireJsonOrRows`
 * one for named batches, which also take rows if uploads are allowed.
 */
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import { maxUploadBytes, type Config } from '../../schemas/config.ts'
import { headerValues, mediaTypes } from '../../schemas/http.ts'
import { failure } from '../../src/errors/catalogue.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The form of rows that are read while they arrive; undefined: the body is JSON. */
    upload: 'ndjson' | 'csv' | undefined
    maxBodyBytes: number
  }
}

/** RFC 9110 §8.3: a media type, in UTF-8 if a charset is named. */
const TYPE = /^([^; \t]+)[ \t]*(?:;[ \t]*(?:charset=(?:utf-8|"utf-8")[ \t]*)?)?$/i

export function createMediaTypeHooks (app: FastifyInstance, config: Config) {
  app.decorateRequest('upload', undefined)
  app.decorateRequest('maxBodyBytes', config.MAX_BODY_BYTES)
  const requireJson: onRequestHookHandler = (request, _reply, done) => {
    if (readType(request) !== mediaTypes.json) throw failure('content_type_unsupported')
    done()
  }
  const requireJsonOrRows: onRequestHookHandler = (request, reply, done) => {
    const type = readType(request)
    const upload = (['ndjson', 'csv'] as const).find(name => mediaTypes[name] === type)
    if (upload === undefined) return requireJson.call(app, request, reply, done)
    request.upload = upload
    request.maxBodyBytes = maxUploadBytes(config)
    done()
  }
  return {
    requireJson,
    requireJsonOrRows: config.MAX_UPLOAD_ROWS > 0 ? requireJsonOrRows : requireJson
  }
}

/** RFC 4180 §3: whether the first line is a header. */
const CSV_HEADER = /^(text\/csv\b[^,]*?);[ \t]*header=("?)(present|absent)\2[ \t]*(?=;|$)/i

/**
 * Returns the media type in lower case; undefined if there is not exactly one. Throws
 * `content_type_unsupported` for CSV without a header.
 */
function readType ({ raw, headers }: FastifyRequest): string | undefined {
  const [sent = '', ...more] = headerValues(raw.rawHeaders, 'content-type')
  // RFC 9110 §8.4: an encoded body is not decoded here.
  if (more.length > 0 || headers['content-encoding'] !== undefined) return undefined
  if (sent === mediaTypes.json) return sent
  const [, , , header] = CSV_HEADER.exec(sent) ?? []
  if (header?.toLowerCase() === 'absent') {
    const message = 'CSV must have a header, which names the columns of the rows. ' +
      'Send it with `Content-Type: text/csv; header=present`.'
    throw failure('content_type_unsupported', message)
  }
  return TYPE.exec(sent.replace(CSV_HEADER, '$1'))?.[1]?.toLowerCase()
}
