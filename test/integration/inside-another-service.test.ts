/**
 * Tests the routes as a plugin of another Fastify server: they work with what the host has
 * registered, and the host's own routes stay as they are.
 */
import { once } from 'node:events'
import { connect } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { text as readText } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import fastifyCompress from '@fastify/compress'
import fastifyCors from '@fastify/cors'
import fastifyJwt, { type FastifyJWTOptions } from '@fastify/jwt'
import FastifyOtel from '@fastify/otel'
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor
} from '@opentelemetry/sdk-trace-node'
import Fastify, {
  type FastifyInstance,
  type FastifyServerOptions,
  type LightMyRequestResponse
} from 'fastify'
import metricsModule from 'fastify-metrics'
import t, { type Test } from 'tap'
import { oneflight, readConfig, type OneflightOptions } from '../../src/index.ts'
import { useDatabase } from '../support/database/database.ts'
import { SECRET, token } from '../support/environment.ts'
import { bearer, failed, headersOfBatch } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const schema = `
  create table t (id int primary key, word text not null);
  insert into t select n, repeat('word ', 200) from generate_series(1, 200) as n;
  create function slow() returns int language sql volatile as $$ select 1 from pg_sleep(2) $$;
  grant all on t to oneflight_user, oneflight_anon`

const { loginUrl } = await useDatabase(t, { schema })
const select = [{ id: 's', op: 'select', table: 't', where: { id: { eq: 1 } }, columns: ['id'] }]
const rows = { error: null, data: { s: [{ id: 1 }] } }
const common = { POOL_SIZE: '2', MAX_STREAM_ROWS: '9' }
const HOST_SECRET = 'a secret of the host, which has more than 32 bytes'

interface HostOptions {
  readonly server?: FastifyServerOptions
  /** What the host registers before the plugin. */
  readonly prepare?: (app: FastifyInstance) => unknown
  readonly env?: Readonly<Record<string, string>>
  readonly options?: Partial<OneflightOptions>
}

/** A host with routes of its own and the plugin below /data. */
async function useHost (
  t: Test,
  { server = {}, prepare = () => {}, env = { JWT_SECRET: SECRET }, options = {} }: HostOptions = {}
) {
  const app = Fastify(server)
  t.teardown(() => app.close())
  await prepare(app)
  app.register(oneflight, {
    prefix: '/data',
    ...readConfig({ ...common, DATABASE_URL: loginUrl, ...env }, { keys: 'host' }),
    ...options
  })
  addOwnRoutes(app)
  await app.ready()
  return app
}

function addOwnRoutes (app: FastifyInstance): void {
  app.post('/own', async ({ body, id }) => ({ body, id }))
  app.get('/fails', async () => {
    throw Object.assign(new Error('teapot'), { statusCode: 418 })
  })
}

async function post (
  app: FastifyInstance,
  batch: unknown = select,
  { url = '/data', headers = {} }: {
    readonly url?: string,
    readonly headers?: Readonly<Record<string, string>>
  } = {}
) {
  const answer = await app.inject({
    method: 'POST',
    url,
    headers: headersOfBatch(headers),
    payload: JSON.stringify(batch)
  })
  return read(answer)
}

function read ({ statusCode: status, headers, body: text }: LightMyRequestResponse) {
  const isJson = String(headers['content-type']).startsWith('application/json')
  return { status, headers, text, body: isJson ? JSON.parse(text) : undefined }
}

t.test('the routes are below the prefix, and the routes of the host are as they were', async t => {
  const alone = Fastify()
  addOwnRoutes(alone)
  const app = await useHost(t)
  t.match(await post(app, select, { url: '/data/' }), { status: 200, body: rows })
  t.match(read(await app.inject('/data/health')), { status: 200, text: '{"ok":true}' })
  t.same((await app.inject('/data/openapi.json')).json().servers, [{ url: '/data' }])
  const message = /`POST \/data` or `POST \/data\/batches\/<name>`\.$/
  t.match(read(await app.inject('/data/nothing')), failed(404, 'not_found', { message }))
  t.match(read(await app.inject('/data')), {
    ...failed(405, 'method_not_allowed', { message }),
    headers: { allow: 'POST' }
  })

  const requests = [
    { method: 'POST', url: '/own', payload: { a: 1 } },
    { method: 'POST', url: '/own', payload: 'text', headers: { 'content-type': 'text/plain' } },
    { method: 'POST', url: '/own', payload: 'a=1', headers: { 'content-type': 'text/x' } },
    { method: 'GET', url: '/fails' },
    { method: 'OPTIONS', url: '/database' },
    { method: 'GET', url: '/own' }
  ] as const
  for (const request of requests) {
    const [own, before] = await Promise.all([app.inject(request), alone.inject(request)])
    const withoutId = (text: string): string => text.replace(/"req-\w+"/, '')
    const shape = ({ statusCode, headers: { date, 'content-length': _, ...headers }, body }: any) =>
      [statusCode, headers, withoutId(body)]
    t.same(shape(own), shape(before), `${request.method} ${request.url}`)
  }
})

t.test('request ids, limits and the log are those of the host', async t => {
  const lines: string[] = []
  const app = await useHost(t, {
    server: {
      genReqId: () => 'mine',
      bodyLimit: 10,
      logger: { stream: { write: line => lines.push(line) } }
    }
  })
  t.match(await post(app), { status: 200, headers: { 'x-request-id': 'mine' } })
  t.match(await app.inject({ method: 'POST', url: '/own', payload: { long: 'a long text' } }), {
    statusCode: 413
  })
  t.match(
    lines.map(line => JSON.parse(line)).find(({ role }) => role !== undefined),
    { reqId: 'mine', path: '/data', status: 200, role: 'oneflight_user', operations: 1 }
  )
})

t.test('requests over HTTP/2', async t => {
  const app = Fastify({ http2: true })
  app.register(oneflight as never, {
    prefix: '/data', ...readConfig({ DATABASE_URL: loginUrl, JWT_SECRET: SECRET })
  } as never)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const session = connect(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
  t.teardown(async () => {
    session.close()
    await app.close()
  })
  const stream = session.request({ ':method': 'POST', ':path': '/data', ...headersOfBatch() })
  stream.end(JSON.stringify(select))
  const [headers] = await once(stream, 'response')
  t.equal(headers[':status'], 200)
  t.same(JSON.parse(await readText(stream)), rows)
})

t.test('hooks and serializers of the host do not change a response', async t => {
  const seen: unknown[] = []
  const app = await useHost(t, {
    prepare (app) {
      app.setReplySerializer(payload => JSON.stringify({ wrapped: payload }))
      app.setErrorHandler((error, _request, reply) => {
        reply.code(418).send({ host: (error as Error).message })
      })
      app.addHook('preParsing', async (_request, _reply, payload) => {
        const chunks: Buffer[] = []
        for await (const chunk of payload) chunks.push(chunk as Buffer)
        const bytes = Buffer.concat(chunks)
        return Object.assign(Readable.from([bytes]), { receivedEncodedLength: bytes.length })
      })
      app.addHook('preHandler', async ({ body }) => {
        seen.push(body)
      })
      app.addHook('preSerialization', async (_request, _reply, payload) => ({ enveloped: payload }))
      app.addHook('onSend', async (_request, reply) => {
        reply.header('x-host', 'yes')
      })
    }
  })
  t.match(await post(app), { status: 200, body: rows, headers: { 'x-host': 'yes' } })
  t.same(seen, [Buffer.from(JSON.stringify(select))])
  t.same((await app.inject('/data/health')).body, '{"ok":true}')
  t.match(await post(app, {}), failed(400, 'body_invalid'))
  t.same((await app.inject('/fails')).json(), { wrapped: { enveloped: { host: 'teapot' } } })
})

t.test('the error handler of the host responds to what the host refuses', async t => {
  let hook = ''
  const refuse = (name: string, error: Error) => async () => {
    if (hook === name) throw error
  }
  const unauthorized = Object.assign(new Error('not here'), { statusCode: 401 })
  const app = await useHost(t, {
    prepare (app) {
      app.setErrorHandler((error, _request, reply) => {
        const { statusCode = 500, message } = error as Error & { statusCode?: number }
        reply.code(statusCode).send({ host: message })
      })
      app.addHook('onRequest', refuse('onRequest', unauthorized))
      app.addHook('onRequest', async (_request, reply) => {
        if (hook === 'reply') return reply.code(202).send('later')
      })
      app.addHook('preHandler', refuse('preHandler', unauthorized))
      app.addHook('preHandler', refuse('bug', new TypeError('a bug of the host')))
      app.addHook('onSend', async (_request, { statusCode }) => {
        if (hook === 'onSend' && statusCode === 200) throw unauthorized
      })
    }
  })
  for (hook of ['onRequest', 'preHandler']) {
    t.match(await post(app), { status: 401, body: { host: 'not here' } }, hook)
  }
  hook = 'reply'
  t.match(await post(app), { status: 202, text: 'later' })
  hook = 'bug'
  t.match(await post(app), failed(500, 'internal'))
  hook = 'onSend'
  const write = [{ id: 'i', op: 'insert', table: 't', values: [{ id: 1000, word: 'a' }] }]
  t.match(await post(app, write), failed(500, 'commit_unknown'), 'it is committed')
  hook = ''
  const [again] = (await post(app, [{ ...select[0], where: { id: { eq: 1000 } } }])).body.data.s
  t.same(again, { id: 1000 })
})

t.test('a host that compresses responses', async t => {
  const app = await useHost(t, { prepare: app => app.register(fastifyCompress) })
  const all = [{ id: 's', op: 'select', table: 't', where: { id: { lte: 200 } } }]
  const answer = await app.inject({
    method: 'POST',
    url: '/data',
    headers: headersOfBatch({ 'accept-encoding': 'gzip' }),
    payload: JSON.stringify(all)
  })
  t.match(answer, { statusCode: 200, headers: { 'content-encoding': 'gzip' } })
  t.equal(JSON.parse(gunzipSync(answer.rawPayload).toString()).data.s.length, 200)
})

t.test('a handlerTimeout of the host leaves the outcome unknown', async t => {
  const app = await useHost(t, { server: { handlerTimeout: 300 } })
  const call = [{ id: 'c', op: 'call', function: 'slow' }]
  t.match(await post(app, call), failed(500, 'commit_unknown'))
})

const hostJwt = (options: Partial<FastifyJWTOptions> = {}) => (app: FastifyInstance) =>
  app.register(fastifyJwt, { secret: HOST_SECRET, ...options } as FastifyJWTOptions)
const hostToken = (claims: object = {}) =>
  ({ authorization: `Bearer ${token({ role: 'oneflight_user', ...claims }, HOST_SECRET)}` })

t.test('without keys of its own, @fastify/jwt of the host verifies tokens', async t => {
  let trusted = true
  const app = await useHost(t, {
    env: { JWT_ROLE_CLAIM: 'app.role' },
    prepare: hostJwt({
      decode: { complete: true },
      // Elsewhere, the host looks for another token.
      verify: { extractToken: () => 'none', allowedIss: 'host' },
      trusted: () => trusted
    })
  })
  const claims = { iss: 'host', role: undefined, app: { role: 'oneflight_user' } }
  const send = (more: object = {}) =>
    post(app, select, { headers: hostToken({ ...claims, ...more }) })
  t.match(await send(), { status: 200, body: rows })
  t.match(await send({ iss: 'other' }), failed(401, 'token_invalid'))
  t.match(await send({ exp: 1 }), failed(401, 'token_expired'))
  t.match(await send({ app: {} }), failed(401, 'role_missing'))
  t.match(await post(app), failed(401, 'token_invalid'), 'signed with another key')
  trusted = false
  t.match(await send(), failed(401, 'token_invalid'))
  t.match(read(await app.inject({ method: 'POST', url: '/data', payload: select })), {
    ...failed(401, 'auth_required')
  })
  const { components } = (await app.inject('/data/openapi.json')).json()
  t.ok('bearer' in components.securitySchemes)
})

t.test('a key function of the host that fails', async t => {
  const app = await useHost(t, {
    env: { ERROR_VERBOSITY: 'verbose' },
    prepare: hostJwt({
      secret: async () => {
        throw new TypeError('hush')
      }
    })
  })
  const { text, ...answer } = await post(app, select, { headers: hostToken() })
  t.match(answer, failed(401, 'token_invalid'))
  t.match(text, 'TypeError')
  t.notMatch(text, 'hush')
})

t.test('keys of its own leave @fastify/jwt of the host alone', async t => {
  const app = await useHost(t, {
    async prepare (app) {
      await hostJwt()(app)
      app.decorate('authenticate', async () => 'of the host')
      app.get('/me', async request => {
        await request.jwtVerify()
        return { user: request.user, names: Object.keys(app.jwt) }
      })
    }
  })
  t.match(await post(app), { status: 200, body: rows })
  t.match(await post(app, select, { headers: hostToken() }), failed(401, 'token_invalid'))
  const { user, names } = (await app.inject({ url: '/me', headers: hostToken() })).json()
  t.match(user, { role: 'oneflight_user' })
  t.notOk(names.includes('oneflight'))
  t.equal(await app.getDecorator<() => Promise<string>>('authenticate')(), 'of the host')
  t.match(await app.inject({ url: '/me', headers: { authorization: bearer() } }), {
    statusCode: 401
  })
})

t.test('several databases, each below its prefix, and their admin endpoints', async t => {
  const [one, two] = [await useDatabase(t, { schema }), await useDatabase(t, { schema })]
  await two.sql`update t set word = 'two'`
  const { default: fastifyMetrics } = metricsModule
  const [app, admin] = [Fastify(), Fastify()]
  t.teardown(() => Promise.all([app.close(), admin.close()]))
  await app.register(fastifyMetrics, { endpoint: '/metrics' })
  for (const [prefix, { loginUrl: DATABASE_URL }] of [['/one', one], ['/two', two]] as const) {
    const settings = readConfig({ DATABASE_URL, JWT_SECRET: SECRET })
    app.register(oneflight, { prefix, ...settings, admin })
  }
  await app.ready()
  const words = [{ ...select[0], columns: ['word'] }]
  t.match(await post(app, words, { url: '/one' }), { body: { data: { s: [{ word: /^word/ }] } } })
  t.match(await post(app, words, { url: '/two' }), { body: { data: { s: [{ word: 'two' }] } } })
  t.match(await post(app, {}, { url: '/two' }), { status: 400 })

  const count = async (url: string): Promise<readonly string[]> =>
    (await admin.inject(url)).body.match(/^service_error_count\{.*/gm) ?? []
  t.same(await count('/one/metrics'), [])
  t.same(await count('/two/metrics'), ['service_error_count{code="body_invalid"} 1'])
  const own = (await app.inject('/metrics')).body
  t.match(own, 'http_request_duration_seconds')
  t.notMatch(own, 'service_')
  t.match((await admin.inject('/two/config')).json(), { DATABASE_URL: { database: two.name } })
  t.match((await admin.inject('/one/live')).json(), { ok: true })
  t.match((await admin.inject('/one/ready')).json(), { ok: true })

  const connected = async (): Promise<number> => Number((await one.sql`
    select count(*) from pg_stat_activity
    where datname in (${one.name}, ${two.name}) and usename = 'oneflight_login'`)[0]?.['count'])
  t.ok(await connected() >= 2)
  await app.close()
  await until(async () => await connected() === 0)
  t.match(read(await admin.inject('/one/ready')), {
    status: 503,
    body: { ok: false, error: 'stopping' }
  })
})

t.test('CORS concerns only the paths below the prefix', async t => {
  const origin = 'https://app.example.com'
  const preflight = { origin, 'access-control-request-method': 'POST' }
  const app = await useHost(t, { env: { JWT_SECRET: SECRET, CORS_ORIGINS: origin } })
  t.match(await app.inject({ method: 'OPTIONS', url: '/data', headers: preflight }), {
    statusCode: 204, headers: { 'access-control-allow-origin': origin }
  })
  const beside = await app.inject({ method: 'OPTIONS', url: '/database', headers: preflight })
  t.equal(beside.statusCode, 404)
  t.notOk('access-control-allow-origin' in beside.headers)
  t.match(await post(app, select, { headers: { origin } }), {
    headers: { 'access-control-allow-origin': origin }
  })
  const other = await useHost(t, { prepare: app => app.register(fastifyCors) })
  t.match(await other.inject({ method: 'OPTIONS', url: '/data', headers: preflight }), {
    statusCode: 204,
    headers: { 'access-control-allow-origin': '*' }
  })
})

t.test('spans of batches belong to the span of the host, if it has one', async t => {
  for (const isTraced of [true, false]) {
    const exporter = new InMemorySpanExporter()
    const tracerProvider = new NodeTracerProvider({
      spanProcessors: [new SimpleSpanProcessor(exporter)]
    })
    const app = await useHost(t, {
      options: { tracerProvider },
      async prepare (app) {
        if (!isTraced) return
        const instrumentation = new FastifyOtel.FastifyOtelInstrumentation()
        instrumentation.setTracerProvider(tracerProvider)
        await app.register(instrumentation.plugin())
      }
    })
    t.match(await post(app), { status: 200 })
    const spans = exporter.getFinishedSpans()
    const batch = spans.find(({ name }) => name === 'batch')
    const request = spans.find(({ parentSpanContext }) => parentSpanContext === undefined)
    t.equal(batch?.parentSpanContext?.spanId, request?.spanContext().spanId)
  }
})

t.test('what the host has decorated before', async t => {
  const env = { JWT_SECRET: SECRET }
  const prepare: HostOptions['prepare'] = app => app.decorateRequest('keepPlace', undefined)
  await t.rejects(useHost(t, { env, prepare }), {
    message: /'keepPlace' has already been added/
  })
  await t.rejects(
    useHost(t, { env: { ...env, CORS_ORIGINS: '*' }, prepare: app => app.register(fastifyCors) }),
    { message: /^oneflight: CORS_ORIGINS: / }
  )
  await t.rejects(
    useHost(t, {
      env: { ...env, COMPRESSION: 'on' },
      prepare: app => app.register(fastifyCompress)
    }),
    { message: /^oneflight: COMPRESSION: / }
  )
})

t.test('options that cannot work', async t => {
  await t.rejects(useHost(t, { env: {} }), { message: /no request can be authorized/ })
  for (const prefix of [undefined, '', '/', 'data', '/data/']) {
    await t.rejects(useHost(t, { options: { prefix } as object }), { message: /"prefix" must be/ })
  }
  const app = await useHost(t, { env: { ANON_ROLE: 'oneflight_anon' } })
  t.match(read(await app.inject({ method: 'POST', url: '/data', payload: select })), {
    status: 200,
    body: rows
  })
})
