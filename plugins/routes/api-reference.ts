/**
 * `/reference` of the admin server: an interactive API reference (Scalar) that sends batches. The
 * page loads nothing from other hosts, enforced by its Content-Security-Policy. It shows the URL of
 * the main server, which clients use. Its own requests go to `/reference/try` on the admin server,
 * which forwards them to the main server, so that the page needs no CORS.
 *
 * Only the paths of the API are forwarded, unchanged: the main server checks tokens, types and
 * sizes. Pages of other origins cannot send batches here: `application/json` requires a preflight,
 * which the admin server does not answer. No response carries CORS headers, not even those of the
 * main server.
 */
import { createHash } from 'node:crypto'
import { isIPv6, type AddressInfo } from 'node:net'
import replyFrom from '@fastify/reply-from'
import type { ApiReferenceConfiguration } from '@scalar/fastify-api-reference'
import Fastify, { type FastifyInstance, type RouteHandlerMethod } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../schemas/config.ts'

export interface ApiReferenceOptions {
  readonly config: Pick<Config, 'REQUEST_TIMEOUT_MS'>
  /** Returns the address of the main server; nothing while it does not listen. */
  readonly main: () => MainAddress | null | undefined
}

type MainAddress = Pick<AddressInfo, 'address' | 'port'>

/** Base URL of the page's requests; the path on the main server follows. */
const tryUrl = '/reference/try'

/** Added to the request timeout of the main server, in milliseconds. */
const TIMEOUT_MARGIN_MS = 5000

async function apiReference (
  app: FastifyInstance,
  { config, main }: ApiReferenceOptions
): Promise<void> {
  servePage(app)
  // Bodies of any type are forwarded as streams.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, body, done) => done(null, body))
  const timeout = config.REQUEST_TIMEOUT_MS + TIMEOUT_MARGIN_MS
  await app.register(replyFrom, {
    // An idle keep-alive connection would delay the stop of the main server.
    undici: { headersTimeout: timeout, bodyTimeout: timeout, pipelining: 0 },
    // Nothing is retried: the page shows what happened.
    retryMethods: [],
    destroyAgent: true,
    disableRequestLogging: true
  })
  const forward = createForward(main)
  for (const path of ['/', '/batches/:name']) app.post(`${tryUrl}${path}`, forward)
  for (const path of ['/health', '/tables']) app.get(`${tryUrl}${path}`, forward)
}

function servePage (app: FastifyInstance): void {
  let loading: Promise<Page> | undefined
  const load = (): Promise<Page> => (loading ??= loadPage())
  app.get('/reference', (_request, reply) => reply.redirect('/reference/', 301))
  app.get('/reference/', async (_request, reply) => {
    const { html, policy } = await load()
    return reply.type('text/html; charset=utf-8').headers({
      'content-security-policy': policy,
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-cache'
    }).send(html)
  })
  app.get('/reference/js/scalar.js', async (_request, reply) => {
    const { script } = await load()
    return reply.type('text/javascript; charset=utf-8').header(
      'cache-control',
      'private, max-age=3600'
    ).send(script)
  })
}

function createForward (main: ApiReferenceOptions['main']): RouteHandlerMethod {
  return (request, reply) => {
    const address = main()
    if (!address) return sendBadGateway(reply, NOT_SENT)
    // The library adds the query.
    reply.from(request.url.slice(tryUrl.length).split('?', 1)[0] as string, {
      getUpstream: () => urlOf(address),
      rewriteHeaders: headers =>
        Object.fromEntries(
          Object.entries(headers).filter(([name]) =>
            name !== 'connection' && !name.startsWith('access-control-')
          )
        ),
      onError: (reply, { error }) =>
        sendBadGateway(
          reply,
          (error.cause as NodeJS.ErrnoException | undefined)?.syscall === 'connect'
            ? NOT_SENT
            : UNKNOWN
        )
    })
  }
}

function urlOf ({ address, port }: MainAddress): string {
  return `http://${isIPv6(address) ? `[${address}]` : address}:${port}`
}

/**
 * Returns the URL at which clients reach the main server. If it listens on every address, that is
 * the host name by which the reader reaches the admin server.
 */
export function mainUrl (main: MainAddress, hostname: string): string {
  return ['0.0.0.0', '::'].includes(main.address) ? `http://${hostname}:${main.port}` : urlOf(main)
}

const NOT_SENT = 'Cannot connect to the main server. The request was not sent.'
const UNKNOWN = 'The main server did not respond. It is unknown whether the batch was committed.'

function sendBadGateway (
  reply: { code(status: number): { send(body: object): unknown } },
  message: string
): void {
  reply.code(502).send({ ok: false, error: 'main server', message })
}

interface Page {
  readonly html: string
  readonly script: string
  readonly policy: string
}

/** Loads the library at the first request: its 4 MB of text cost 0.4 s and 40 MB of memory. */
async function loadPage (): Promise<Page> {
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  const app = Fastify()
  await app.register(scalar, { routePrefix: '/reference', configuration })
  const [html, script] = await Promise.all(
    ['/reference/', '/reference/js/scalar.js'].map(async url => (await app.inject(url)).body)
  ) as [string, string]
  await app.close()
  const inline = [...html.matchAll(/<script[^>]*>([^<]+)<\/script>/g)].map(([, text = '']) =>
    `'sha256-${createHash('sha256').update(text).digest('base64')}'`
  )
  return { html, script, policy: [...policy, `script-src 'self' ${inline.join(' ')}`].join('; ') }
}

const policy = [
  "default-src 'none'",
  "connect-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'"
]

/** Hidden code samples: only curl and fetch are shown. */
const hiddenLanguages =
  ('c clojure csharp dart fsharp go http java julia kotlin node objc ocaml php powershell ' +
    'python r ruby rust swift')
    .split(' ')

const configuration: Partial<ApiReferenceConfiguration> = {
  url: '/openapi.json',
  pageTitle: 'Oneflight',
  theme: 'default',
  favicon: 'data:,',
  hiddenClients: {
    ...Object.fromEntries(hiddenLanguages.map(language => [language, true])),
    shell: ['httpie', 'wget'],
    js: ['axios', 'jquery', 'ofetch', 'xhr']
  },
  layout: 'modern',
  withDefaultFonts: false,
  telemetry: false,
  showDeveloperTools: 'never',
  hideClientButton: true,
  agent: { disabled: true },
  mcp: { disabled: true },
  documentDownloadType: 'json',
  // Part of the page, which runs it before it sends a request. It cannot refer to tryUrl.
  /* c8 ignore next 3 */
  onBeforeRequest: ({ requestBuilder }) => {
    requestBuilder.baseUrl = '/reference/try'
  },
  authentication: { preferredSecurityScheme: 'bearer' }
}

export default fp(apiReference, { name: 'api-reference', encapsulate: true })
