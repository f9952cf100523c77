/**
 * `/reference` of the admin server: a page that shows the description of the API and sends batches.
 * It comes with all it needs and may load nothing from elsewhere, which its Content-Security-Policy
 * holds it to. What it sends goes to `/reference/try` on its own server, which hands it on to the
 * main server, so that the page needs no CORS.
 *
 * What is handed on are the paths of the API and nothing else, as they came: the main server
 * decides on tokens, types and sizes, as for everybody. A foreign page in a browser that reaches
 * the admin server gets nothing sent here: a batch is `application/json` alone, for which a browser
 * asks first (a preflight), and nobody answers. No answer carries headers of CORS, whatever the
 * main server says.
 */
import { createHash } from 'node:crypto'
import { isIPv6, type AddressInfo } from 'node:net'
import replyFrom from '@fastify/reply-from'
import type { ApiReferenceConfiguration } from '@scalar/fastify-api-reference'
import Fastify, { type FastifyInstance, type RouteHandlerMethod } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../schemas/config.ts'

export interface ReferenceOptions {
  readonly config: Pick<Config, 'REQUEST_TIMEOUT_MS'>
  /** Where the main server listens; nothing while it does not. */
  readonly main: () => Pick<AddressInfo, 'address' | 'port'> | null | undefined
}

/** Where the page sends its requests, followed by the path of the main server. */
export const tryUrl = '/reference/try'

/** Longer than the main server takes to answer. */
const MARGIN_MS = 5000

async function reference (app: FastifyInstance, { config, main }: ReferenceOptions): Promise<void> {
  let opening: Promise<Page> | undefined
  const open = (): Promise<Page> => (opening ??= openPage())
  app.get('/reference', (_request, reply) => reply.redirect('/reference/', 301))
  app.get('/reference/', async (_request, reply) => {
    const { html, policy } = await open()
    return reply.type('text/html; charset=utf-8').headers({
      'content-security-policy': policy,
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-cache'
    }).send(html)
  })
  app.get('/reference/js/scalar.js', async (_request, reply) => {
    const { script } = await open()
    return reply.type('text/javascript; charset=utf-8').header(
      'cache-control',
      'private, max-age=3600'
    ).send(script)
  })

  // Bodies are passed on as they come, whatever they are, and never held.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, body, done) => done(null, body))
  const timeout = config.REQUEST_TIMEOUT_MS + MARGIN_MS
  await app.register(replyFrom, {
    // A connection that is kept alive would hold the main server for a moment when it stops.
    undici: { headersTimeout: timeout, bodyTimeout: timeout, pipelining: 0 },
    // A batch is never sent twice; nor is anything else, for the page shows what happened.
    retryMethods: [],
    destroyAgent: true,
    disableRequestLogging: true
  })
  const passOn = (path: string): RouteHandlerMethod => (_request, reply) => {
    const address = main()
    if (!address) return refuse(reply, NOT_SENT)
    reply.from(path, {
      getUpstream: () =>
        `http://${
          isIPv6(address.address) ? `[${address.address}]` : address.address
        }:${address.port}`,
      rewriteHeaders: headers =>
        Object.fromEntries(
          Object.entries(headers).filter(([name]) =>
            name !== 'connection' && !name.startsWith('access-control-')
          )
        ),
      onError: (reply, { error }) =>
        refuse(
          reply,
          (error.cause as NodeJS.ErrnoException | undefined)?.syscall === 'connect'
            ? NOT_SENT
            : NOT_KNOWN
        )
    })
  }
  app.post(`${tryUrl}/`, passOn('/'))
  app.get(`${tryUrl}/health`, passOn('/health'))
}

const NOT_SENT = 'The main server cannot be reached: nothing was sent.'
const NOT_KNOWN = 'The main server did not answer. Whether a batch is committed is not known.'

function refuse (
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

/**
 * Not before somebody asks: the library is 4 MB of text, which would cost every start 0.4 s and 40
 * MB.
 */
async function openPage (): Promise<Page> {
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

/** What a batch looks like in these says nothing more; curl and fetch are shown. */
const otherLanguages =
  ('c clojure csharp dart fsharp go http java julia kotlin node objc ocaml php powershell ' +
    'python r ruby rust swift')
    .split(' ')

const configuration: Partial<ApiReferenceConfiguration> = {
  url: '/openapi.json',
  pageTitle: 'Oneflight',
  theme: 'default',
  favicon: 'data:,',
  hiddenClients: {
    ...Object.fromEntries(otherLanguages.map(language => [language, true])),
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
  authentication: { preferredSecurityScheme: 'bearer' }
}

export default fp(reference, { name: 'api-reference', fastify: '5.x', encapsulate: true })
