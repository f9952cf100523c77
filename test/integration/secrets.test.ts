/**
 * The service never prints secrets or data. Every secret and value of these tests contains a unique
 * word. The tests search for it, also encoded, in the log, the responses of the admin server, the
 * output of the process, and error responses.
 */
import { randomBytes } from 'node:crypto'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  ensureRoles,
  LOGIN_ROLE,
  useDatabase,
  withAdmin,
  type Database
} from '../support/database/database.ts'
import { body as answering, set, useJwksServer } from '../support/network/jwks-server.ts'
import { jwks, keyPair, makeToken, privateJwk, publicJwk, publicPem } from '../support/keys.ts'
import { useListener } from '../support/network/listen.ts'
import { message } from '../support/network/messages.ts'
import * as op from '../support/operations.ts'
import { startMain } from '../support/process/process.ts'
import {
  ask,
  forbidAnswers,
  SECRET,
  token,
  useService,
  type Answer,
  type ServiceUnderTest,
  type UseServiceOptions
} from '../support/service.ts'
import { failed, on } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const names = [
  'secret', 'password', 'option', 'application', 'queryPassword', 'keyQuery', 'keyBody', 'keyId',
  'claim', 'badClaim', 'badToken', 'basic', 'header', 'cookie', 'agent', 'idempotency', 'prefer',
  'media', 'requestId', 'query', 'malformed', 'inserted', 'filtered', 'referred', 'json', 'hidden',
  'raised', 'detail', 'hint'
] as const
type Name = typeof names[number]

/** Words of letters and digits only, so that quoting and percent-encoding do not change them. */
const words = Object.fromEntries(
  names.map(name => [name, `c4n4ry${name}${randomBytes(12).toString('hex')}`])
) as Readonly<Record<Name, string>>

/**
 * The base64 forms of `text` at each of the three possible offsets in a longer text, without the
 * characters that depend on its neighbours.
 */
function encoded (text: string): readonly string[] {
  return [0, 1, 2].map(shift =>
    Buffer.from(`${'x'.repeat(shift)}${text}`).toString('base64').slice(4, -4).replaceAll('=', '')
  )
}

function formsOf (text: string): readonly string[] {
  const hex = Buffer.from(text).toString('hex')
  return [
    text,
    ...encoded(text),
    ...encoded(text).map(form => form.replaceAll('+', '-').replaceAll('/', '_')),
    hex,
    hex.replaceAll(/../g, '%$&')
  ].map(form => form.toLowerCase())
}

const forms = new Map<string, readonly string[]>(names.map(name => [name, formsOf(words[name])]))

/** Adds part of a key or token to the searched words. */
function watch (name: string, text: string): void {
  forms.set(name, formsOf(text))
}

/** The names of the words that a text contains. */
function leaks (text: string, allowed: readonly string[] = []): readonly string[] {
  const searched = text.toLowerCase()
  return [...forms].filter(([name, each]) =>
    !allowed.includes(name) && each.some(form => searched.includes(form))
  ).map(([name]) => name)
}

const headersOf = ({ headers }: Answer): string => JSON.stringify([...headers])

t.test('the search finds a word in every encoding', async t => {
  const variants = [
    words.secret, `x${words.secret}`, encodeURIComponent(words.secret), words.secret.toUpperCase()
  ]
  for (const form of variants) {
    t.same(leaks(`… ${form} …`), ['secret'])
    for (const encoding of ['base64', 'base64url', 'hex'] as const) {
      for (const before of ['', 'a', 'bc']) {
        t.same(
          leaks(Buffer.from(`${before}${form}?`).toString(encoding)),
          ['secret'].slice(form === form.toUpperCase() ? 1 : 0)
        )
      }
    }
  }
  t.same(leaks('nothing'), [])
})

const schema = `
  create type mood as enum ('good');
  create table kinds (id int generated always as identity, n int, word text,
    short varchar(3), mood mood, day date, at timestamptz, doc jsonb, list int[], span int4range,
    bits bit(4), bytes bytea, place point, found tsvector, thing regclass, who regrole,
    kind regtype);
  create table people (id int primary key, email text unique,
    secret text default '${words.hidden}' check (secret <> 'bad'),
    needed text not null default 'x');
  insert into people values (1, '${words.hidden}@example.org');
  alter table people enable row level security;
  create policy nobody on people for select using (false);
  create policy anybody on people for insert with check (true);
  create table pets (owner int references people deferrable, n int unique deferrable initially
    deferred);
  create function raise (code text) returns int language plpgsql as $$ begin
    raise exception using errcode = code, message = '${words.raised}', detail = '${words.detail}',
      hint = '${words.hint}'; end $$;
  create view raising as select raise('P0001') as x;
  create view choosing as select raise('PT422') as x;
  create view revealing as select secret::int as n from people;
  create view looking as select (secret || ' (')::tsquery as q from people;
  create view napping as select pg_sleep(30)::text as slept;
  create table acts (role text);
  create function act() returns trigger language plpgsql as $$ begin perform set_config('role',
    new.role, false); return new; end $$;
  create trigger act after insert on acts for each row execute function act();
  create schema private;
  create table private.things (n int);
  grant all on all tables in schema public to public;`

const role = 'oneflight_user'

/** An Authorization header with a token of the service. */
const bearer = (claims: object = {}, secret: string = words.secret): string =>
  `Bearer ${token({ role, email: words.claim, ...claims }, secret)}`

const insert = (column: string, value: unknown): readonly object[] =>
  [op.insert('a', 'kinds', [{ [column]: value }])]
const select = (where: object = {}, more: object = {}): readonly object[] =>
  [op.select('a', 'kinds', { where, ...more })]
const person = (values: object): readonly object[] =>
  [op.insert('a', 'people', [{ id: 2, ...values }], { returning: [] })]
/** Inserts a word, then runs another operation. */
const after = (operation: object, word = words.inserted): readonly object[] =>
  [...insert('word', word), operation]
const napping = after(op.select('n', 'napping', { where: { slept: { neq: words.filtered } } }))

interface RequestOptions {
  readonly headers?: Readonly<Record<string, string>>
  readonly path?: string
  readonly method?: string
}

/** Sends a batch; a string is sent unchanged. */
const send = (
  { url }: Pick<ServiceUnderTest, 'url'>,
  batch: unknown,
  { headers = {}, path = '/', method = 'POST' }: RequestOptions = {}
): Promise<Answer> =>
  ask(url + path, {
    method,
    headers: { 'content-type': 'application/json', authorization: bearer(), ...headers },
    body: typeof batch === 'string' ? batch : JSON.stringify(batch)
  })

const untilNapping = ({ sql }: Database): Promise<unknown> =>
  until(async () =>
    (await sql`select from pg_stat_activity
      where datname = current_database() and wait_event = 'PgSleep'`).length > 0)

/**
 * The pattern of an error code, undefined for success; a batch; the request, and the words that the
 * response body may contain.
 */
type Row = readonly [
  code: string | undefined,
  batch: unknown,
  more?: RequestOptions & { readonly allowed?: readonly Name[] }
]
const withHeader = (name: string, value: string): RequestOptions => ({ headers: { [name]: value } })

const rows: readonly Row[] = [
  [undefined, [
    ...after(op.insert('b', 'kinds', [{ word: '$a.0.word', doc: { x: words.json } }])),
    op.select('c', 'kinds', { where: { word: { eq: words.filtered } } })
  ]],
  // Values that a type rejects.
  ...['n', 'mood', 'at', 'list', 'span', 'bits', 'place'].map((column): Row =>
    ['.', insert(column, words.inserted)]),
  ['.', insert('bytes', `\\x${words.inserted}`)],
  ['value_invalid', insert('short', words.inserted)],
  ['.', insert('n', { x: words.json })],
  ['.', insert('found', `${words.inserted}:`)],
  ['.', insert('at', `2026-01-01 00:00 Asia/${words.inserted}`)],
  // Names of missing tables, roles and types.
  ...['thing', 'who', 'kind'].map((column): Row =>
    ['undefined_(table|object)', insert(column, words.inserted), { allowed: ['inserted'] }]
  ),
  ['invalid_text_representation',
    after(op.insert('b', 'kinds', [{ n: '$a.0.word' }]), words.referred)],
  ['invalid_datetime_format',
    after(op.select('b', 'kinds', { where: { day: { in: '$a.*.word' } } }), words.referred)],
  ['.', select({ mood: { eq: words.filtered } })],
  ['invalid_regular_expression', select({ word: { match: `(${words.filtered}` } })],
  ['.', select({ found: { fts: `${words.filtered} (` } })],
  ['undefined_object', select({ found: { fts: { query: 'x', config: words.filtered } } }),
    { allowed: ['filtered'] }],
  ['invalid_text_representation',
    [op.update('a', 'kinds', { set: { n: words.inserted }, all: true })]],
  // Rows that the role may not see, and columns that the request does not name.
  ['unique_violation', person({ email: `${words.hidden}@example.org` })],
  ['check_violation', person({ email: words.inserted, secret: 'bad' })],
  ['not_null_violation', person({ email: words.inserted, needed: null })],
  ['foreign_key_violation', [op.insert('a', 'pets', [{ owner: 99 }])]],
  ['invalid_text_representation', [op.select('a', 'revealing')]],
  ['syntax_error', [op.select('a', 'looking')]],
  ['raise_exception', [op.select('a', 'raising')], { allowed: ['raised'] }],
  ['PT422', [op.select('a', 'choosing')], { allowed: ['raised'] }],
  ['query_canceled', napping],
  ['validation_failed',
    [op.select('a', 'private.things', { where: { n: { eq: words.filtered } } })]],
  ['undefined_table', [op.select('a', words.filtered)], { allowed: ['filtered'] }],
  ['undefined_column', select({ [words.filtered]: { eq: 1 } }), { allowed: ['filtered'] }],
  ['reference_row_missing', after(op.insert('b', 'kinds', [{ word: '$a.1.word' }]))],
  ['expectation_failed', select({ word: { eq: words.filtered } }, { expect: 1 })],
  ['rows_limit|validation_failed',
    [op.insert('a', 'kinds', Array(4).fill({ word: words.inserted }))]],
  ['validation_failed', select({ word: { is: words.filtered } })],
  ['validation_failed', select({ word: { eq: { $value: words.json, x: 1 } } })],
  ['validation_failed', select({ word: { eq: `$${words.referred}.0.x` } }),
    { allowed: ['referred'] }],
  ['validation_failed', select({}, Object.fromEntries(
    ['limit', 'offset', 'order', 'columns', 'lock', 'expect'].map(name => [name, words.malformed])
  ))],
  ['validation_failed', [{ id: 'a', op: words.malformed, table: 'kinds' }],
    { allowed: ['malformed'] }],
  ['id_duplicate', [{ id: words.malformed }, { id: words.malformed }], { allowed: ['malformed'] }],
  ['body_invalid', words.malformed],
  ['body_invalid', `[{"${words.malformed}":1,"${words.malformed}":2}]`, { allowed: ['malformed'] }],
  ['body_invalid', `["${words.malformed}\\ud800"]`],
  ['body_too_large', JSON.stringify([words.malformed.repeat(100)])],
  [undefined, select(), {
    headers: {
      'x-secret': words.header,
      cookie: `session=${words.cookie}`,
      'user-agent': words.agent,
      referer: `http://x/${words.header}`,
      'x-forwarded-for': words.header,
      origin: `http://${words.header}`
    },
    path: `/?token=${words.query}`
  }],
  [undefined, select(), withHeader(
    'prefer',
    `handling=lenient, ${words.prefer}=1, tx=rollback`
  )],
  ...['handling=strict, ', 'tx='].map((name): Row => ['prefer_invalid', select(),
    { ...withHeader('prefer', `${name}${words.prefer}`), allowed: ['prefer'] }]),
  ['idempotency_key_invalid', select(), withHeader('idempotency-key', words.idempotency)],
  ['content_type_unsupported', select(), withHeader('content-type', `application/${words.media}`)],
  [undefined, select(), withHeader('x-request-id', `${words.requestId} !`)],
  ...([
    ['token_invalid', `Basic ${Buffer.from(`user:${words.basic}`).toString('base64')}`],
    ['token_invalid', `Bearer ${words.badToken}`],
    ['token_invalid', bearer({ x: words.badClaim }, `another ${SECRET}`)],
    ['token_expired', bearer({ x: words.badClaim, exp: 1 })],
    ['token_claims_invalid', bearer({ aud: words.badClaim, exp: words.badClaim })],
    ['role_denied', bearer({ role: 'postgres', x: words.badClaim })]
  ] as const).map(([code, value]): Row => [code, select(), withHeader('authorization', value)]),
  ['not_found', undefined, { path: `/nothing?${words.query}`, method: 'GET' }],
  ['http_malformed', undefined, { path: `/%zz?${words.query}`, method: 'GET' }],
  ['headers_too_large', undefined,
    { ...withHeader('x-secret', words.header.repeat(1000)), method: 'GET' }]
]

const login = `oneflight_secrets_${process.pid}`

const database = await useDatabase(t, { schema })
await ensureRoles([login], `login noinherit password '${words.password}é'`)
await withAdmin(admin => admin.unsafe(`grant ${role}, oneflight_other to ${login}`))
t.teardown(() =>
  withAdmin(async admin => {
    await admin.unsafe(`drop owned by ${login}; drop role ${login}`)
  })
)

/**
 * Starts a service with secrets in its configuration and database URL, and with log level trace.
 */
const useSecretService = (
  t: Test,
  { env, ...options }: UseServiceOptions = {}
): Promise<ServiceUnderTest> =>
  useService(t, {
    ...on(database),
    databaseUrl: withSecrets,
    ...options,
    env: { JWT_SECRET: words.secret, LOG_LEVEL: 'trace', ...env }
  })

/** The login URL with a fully percent-encoded password and with secrets in its query. */
function withSecrets (url: string): string {
  const password = Buffer.from(`${words.password}é`).toString('hex').replaceAll(/../g, '%$&')
  return `${
    url.replace(`${LOGIN_ROLE}:login`, `${login}:${password}`)
  }?application_name=${words.application}&options=-c%20app.x%3D${words.option}`
}

/** Asserts that the admin server, the log and /health contain no secret. */
async function assertNoLeaks (
  t: Test,
  { url, adminUrl, log }: ServiceUnderTest,
  label: string
): Promise<void> {
  const adminPaths = ['/metrics', '/config', '/live', '/ready', `/nothing?${words.query}`]
  for (const address of [...adminPaths.map(path => adminUrl + path), `${url}/health`]) {
    const answer = await ask(address, {
      headers: { cookie: words.cookie, authorization: `Bearer ${words.badToken}` }
    })
    t.same(
      leaks(answer.text + headersOf(answer), answer.status === 404 ? ['query'] : []),
      [],
      `${label}: ${address}`
    )
  }
  // A key id is not a secret: the log names the one that no key has.
  const allowed = ['keyId']
  t.same(
    log.filter(line => leaks(JSON.stringify(line), allowed).length > 0),
    [],
    `${label}: the log`
  )
}

t.test('no request, valid or invalid, reveals secrets or data', async t => {
  for (const verbosity of ['terse', 'verbose']) {
    await database.sql`truncate kinds`
    const service = await useSecretService(t, {
      env: {
        ERROR_VERBOSITY: verbosity,
        MAX_BODY_BYTES: '2000',
        MAX_ROWS: '3',
        STATEMENT_TIMEOUT_MS: '1000',
        POOL_SIZE: '2'
      }
    })
    const authorization = bearer({ exp: 9_999_999_999 })
    watch('token', authorization.slice(-40))
    for (const [code, batch, { headers = {}, allowed = [], ...options } = {}] of rows) {
      const answer = await send(service, batch, {
        ...options,
        headers: { authorization, ...headers }
      })
      const label = `${verbosity}: ${code ?? 'ok'} ${JSON.stringify([options, headers, batch])} ${
        answer.text}`
      t.match(answer.body.error?.code ?? '', code === undefined ? /^$/ : new RegExp(code), label)
      t.same(leaks(headersOf(answer)), [], label)
      if (answer.status !== 200 && verbosity === 'terse') {
        t.same(leaks(answer.text, allowed), [], label)
      }
    }
    await until(() => service.log.length >= rows.length)
    await assertNoLeaks(t, service, verbosity)
  }
})

t.test('a value that is stored as it is does not show whether it is hidden', async t => {
  const service = await useService(t, {
    schema: `create schema private;
      create table private.pins (doc jsonb, word text, short varchar(9), pin text);
      insert into private.pins (pin) values ('hidden');
      create view pins as select doc, word, short, pin::int from private.pins;
      grant select, update on pins to oneflight_user;`
  })
  for (const set of [{ doc: ['a', 'hidden'] }, { word: 'hidden' }, { short: 'hidden' }]) {
    const where = { pin: { gt: 0 } }
    const { status, body } = await service.post([op.update('o', 'pins', { set, where })])
    t.equal(status, 400)
    t.match(body.error, { message: /^invalid input syntax/, path: undefined })
  }
})

t.test('overload, lost connections and failed responses reveal nothing', async t => {
  const service = await useSecretService(t, {
    env: { POOL_SIZE: '1', QUEUE_SIZE: '1', QUEUE_TIMEOUT_MS: '60000' }
  })
  const seen = new Set<string>()
  const check = ({ status, text, body }: Answer): void => {
    seen.add(status === 200 ? 'ok' : String(body.error.code))
    if (status !== 200) t.same(leaks(text), [], text)
  }
  t.equal((await send(service, insert('doc', { x: words.json }))).status, 200)
  const running = send(service, napping)
  await untilNapping(database)
  // One of them waits, which fills the queue.
  const more = [1, 2].map(() => send(service, insert('word', words.inserted)).then(check))
  await Promise.race(more)
  await database.sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and usename = ${login} and wait_event = 'PgSleep'`
  check(await running)
  await Promise.all(more)
  forbidAnswers(t)
  check(await send(service, insert('word', words.inserted)))
  t.same([...seen].sort(), ['commit_unknown', 'database_unavailable', 'ok', 'overloaded'])
  await assertNoLeaks(t, service, 'faults')
})

/** A PostgreSQL server that requests the password and rejects it. Returns its port. */
function useRejectingServer (t: Test): Promise<number> {
  return useListener(t, createServer(socket => {
    socket.on('error', () => {}).once('data', () => {
      socket.write(message('R', '\0\0\0\x03'))
      // The error repeats the password. PostgreSQL never does this, but a proxy may.
      socket.once('data', sent => {
        const detail = sent.toString('latin1').replaceAll('\0', '')
        const text = 'password authentication failed for user "app"'
        socket.end(message('E', `SFATAL\0VFATAL\0C28P01\0M${text}\0D${detail}\0\0`))
      })
    })
  }))
}

t.test('an unreachable database reveals nothing', async t => {
  const strict = await useRejectingServer(t)
  const file = join(
    t.testdir({
      'bad.pem': `-----BEGIN CERTIFICATE-----\n${words.malformed}\n-----END CERTIFICATE-----\n`
    }),
    'bad.pem'
  )
  const url = withSecrets(database.loginUrl)
  const at = (port: number): string => url.replace(/@[^/]+/, `@127.0.0.1:${port}`)
  const queryPassword = `&password=${words.queryPassword}`
  const rows: ReadonlyArray<readonly [reason: RegExp, url: string]> = [
    [/ECONNREFUSED/, at(1)],
    [/password authentication failed/, at(strict) + queryPassword],
    [/does not exist/, url.replace(/(@[^/]+\/)\w+/, '$1no_such_database')],
    [/./, `${url}&sslmode=verify-full&sslrootcert=${encodeURIComponent(file)}`]
  ]
  for (const [reason, databaseUrl] of rows) {
    const service = await useSecretService(t, { databaseUrl: () => databaseUrl })
    const answer = await send(service, insert('word', words.inserted))
    t.match(answer, failed(503, 'database_unavailable'), databaseUrl)
    t.same(leaks(answer.text + headersOf(answer)), [])
    const line = await until(() =>
      service.log.find(({ msg }) => msg === 'could not connect to the database')
    )
    t.match(line['reason'], reason, databaseUrl)
    await assertNoLeaks(t, service, databaseUrl)
  }
})

t.test('keys of tokens from any source are not revealed', async t => {
  const pair = keyPair('rsa')
  const pem = publicPem(pair)
  const jwk = publicJwk(pair, { kid: words.keyId, x5u: `http://x/${words.keyBody}` })
  watch('pem', (pem.split('\n')[2] as string).slice(0, 40))
  watch('modulus', (jwk.n as string).slice(20, 60))
  const server = await useJwksServer(t)
  const url = `${server.url}?key=${words.keyQuery}`
  const bearer = makeToken({
    alg: 'RS256',
    key: pair,
    payload: { role, exp: 9_999_999_999, email: words.claim },
    header: { alg: 'RS256', kid: words.keyId }
  })
  const unknownKey = makeToken({
    alg: 'RS256',
    key: pair,
    payload: { role, email: words.badClaim },
    header: { alg: 'RS256', kid: `unknown-${words.keyId}`, jku: words.badToken }
  })
  watch('token', bearer.slice(-40))
  const query = `?key=${words.keyQuery}`
  const { port } = new URL(server.url)
  const unusable = privateJwk(pair, { kid: words.keyId })
  const rows: ReadonlyArray<readonly [
    env: Readonly<Record<string, string>>, code?: string, behave?: typeof server.behave
  ]> = [
    [{ JWT_JWKS: jwks(jwk) }],
    [{ JWT_JWKS_URL: url }],
    [{ JWT_JWKS_URL: url }, 'token_invalid',
      set({ kty: words.keyBody, kid: words.keyId }, unusable)],
    [{ JWT_JWKS_URL: url }, 'keys_unavailable', answering(`{"keys": ${words.keyBody}`)],
    [{ JWT_JWKS_URL: `https://127.0.0.1:${port}/keys${query}` }, 'keys_unavailable']
  ]
  for (const [env, code, behave = set(jwk)] of rows) {
    server.behave = behave
    const service = await useSecretService(t, { env: { JWT_SECRET: '', ...env } })
    const label = `${Object.keys(env)} ${code}`
    const tokens = [
      [bearer, code],
      [`${bearer.slice(0, -8)}AAAAAAAA`, code ?? 'token_invalid'],
      [unknownKey, '.']
    ] as const
    for (const [authorization, expected] of tokens) {
      const answer = await send(
        service,
        insert('word', words.inserted),
        withHeader('authorization', `Bearer ${authorization}`)
      )
      t.match(
        answer.body.error?.code ?? '',
        expected === undefined ? /^$/ : new RegExp(expected),
        `${label} ${answer.text}`
      )
      t.same(leaks((answer.status === 200 ? '' : answer.text) + headersOf(answer)), [], label)
    }
    await assertNoLeaks(t, service, label)
  }
})

/**
 * Runs the service as a process and returns its output and exit code. With `use`, it is stopped
 * after `use` has ended.
 */
async function runMain (
  t: Test,
  env: Readonly<Record<string, string>>,
  use?: (url: string, adminUrl: string) => Promise<void>
): Promise<{ readonly output: string, readonly code: unknown }> {
  const { child, output, ended, address } = startMain(t, {
    HTTP_PORT: '0', ADMIN_HTTP_PORT: '0', LOG_LEVEL: 'trace', SHUTDOWN_DELAY_MS: '0', ...env
  })
  if (use !== undefined) {
    await use(await until(() => address('main')), await until(() => address('admin')))
    child.kill('SIGTERM')
  }
  const code = await ended
  return { output: output(), code }
}

const processEnvironment = {
  DATABASE_URL: withSecrets(database.loginUrl),
  JWT_SECRET: words.secret
}

t.test('the output of the process reveals nothing from start to exit', async t => {
  const { output, code } = await runMain(t, processEnvironment, async (url, adminUrl) => {
    for (const [authorization, status] of [[bearer(), 200], [`Bearer ${words.badToken}`, 401]]) {
      const headers = { authorization: String(authorization), cookie: words.cookie }
      const path = `/?${words.query}`
      const answer = await send({ url }, insert('word', words.inserted), { headers, path })
      t.equal(answer.status, status)
    }
    const config = await ask(`${adminUrl}/config`)
    t.match(config.body, {
      JWT_SECRET: '[redacted]',
      JWT_PUBLIC_KEY: null,
      JWT_JWKS_URL: null,
      JWT_JWKS: null,
      DATABASE_URL: { user: login }
    })
    t.same(leaks(config.text), [])
  })
  t.equal(code, 0)
  t.match(output, /"msg":"stopping"/)
  t.same(leaks(output), [], output)
})

// config.test.ts, database-url.test.ts and jwt-keys.test.ts have the message of each mistake.
t.test('a rejected configuration is explained without secrets', async t => {
  const { output, code } = await runMain(t, {
    DATABASE_URL: `app:${words.password}@db`, JWT_SECRET: words.secret.slice(0, 25), POOL_SIZE: '0'
  })
  t.equal(code, 1)
  t.match(output, /^(oneflight: [^\n]+\n){3}$/)
  t.same(leaks(output), [], output)
})

t.test('a failed start and a forced shutdown reveal nothing', async t => {
  const failed = await runMain(t, {
    ...processEnvironment,
    HTTP_PORT: String(await useListener(t, createServer()))
  })
  t.equal(failed.code, 1)
  t.match(failed.output, /could not start/)
  t.same(leaks(failed.output), [])
  const forced = await runMain(t, {
    ...processEnvironment,
    SHUTDOWN_TIMEOUT_MS: '200'
  }, async url => {
    send({ url }, napping).catch(() => {})
    await untilNapping(database)
  })
  t.equal(forced.code, 1)
  t.match(forced.output, /shutdown timed out/)
  t.same(leaks(forced.output), [])
})
