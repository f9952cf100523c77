/**
 * The service never prints secrets or data. Every secret and value of these tests contains a unique
 * word. The tests search for it, also encoded, in the log, the responses of the admin server, the
 * output of the process, and error responses.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { spawn } from 'node:child_process'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readConfig } from '../../src/config/config.ts'
import {
  ensureRoles,
  LOGIN_ROLE,
  TEST_ROLES,
  useDatabase,
  withAdmin
} from '../support/database/database.ts'
import { body as answering, redirect, set, useJwksServer } from '../support/network/jwks-server.ts'
import {
  jwks,
  keyPair,
  makeToken,
  privateJwk,
  privatePem,
  publicJwk,
  publicPem
} from '../support/keys.ts'
import { useProxy } from '../support/network/proxy.ts'
import { childEnvironment } from '../support/process/process.ts'
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
import { until } from '../support/until.ts'

const names = [
  'secret',
  'password',
  'option',
  'application',
  'queryPassword',
  'keyQuery',
  'keyBody',
  'keyId',
  'claim',
  'badClaim',
  'badToken',
  'basic',
  'header',
  'cookie',
  'agent',
  'idempotency',
  'prefer',
  'expect',
  'media',
  'requestId',
  'query',
  'malformed',
  'inserted',
  'filtered',
  'referred',
  'json',
  'hidden',
  'raised',
  'detail',
  'hint',
  'variable'
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
    words.secret,
    `x${words.secret}`,
    encodeURIComponent(words.secret),
    words.secret.toUpperCase()
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
  create table kinds (id int generated always as identity, n int, small smallint, word text,
    short varchar(3), mood mood, day date, at timestamptz, uuid uuid, doc jsonb, list int[],
    span int4range, address inet, bits bit(4), bytes bytea, yes boolean,
    length interval, place point, found tsvector, thing regclass, who regrole, kind regtype);
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

const op = (more: object): readonly object[] => [{ id: 'a', op: 'insert', table: 'kinds', ...more }]
const insert = (column: string, value: unknown): readonly object[] =>
  op({ values: [{ [column]: value }] })
const select = (where: object, more: object = {}): readonly object[] =>
  op({ op: 'select', where, ...more })

/** A request and the pattern of its error code. */
interface Row {
  readonly batch?: unknown
  /** `undefined` means success. */
  readonly code: string | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly path?: string
  readonly method?: string
  /** Words that the response body may contain. */
  readonly allowed?: readonly Name[]
}

const rows: readonly Row[] = [
  {
    batch: [...insert('word', words.inserted), {
      id: 'b',
      op: 'insert',
      table: 'kinds',
      values: [{ word: '$a.0.word', doc: { x: words.json } }]
    }, { id: 'c', op: 'select', table: 'kinds', where: { word: { eq: words.filtered } } }],
    code: undefined
  },
  // Values that a type rejects.
  ...[
    'n',
    'small',
    'mood',
    'day',
    'at',
    'uuid',
    'list',
    'span',
    'address',
    'bits',
    'bytes',
    'yes',
    'length',
    'place'
  ].map(column => ({
    batch: insert(column, column === 'bytes' ? `\\x${words.inserted}` : words.inserted),
    code: /./.source
  })),
  { batch: insert('short', words.inserted), code: 'string_data_right_truncation' },
  { batch: insert('n', { x: words.json }), code: '.' },
  { batch: insert('list', [words.json]), code: '.' },
  { batch: insert('found', `${words.inserted}:`), code: '.' },
  { batch: insert('found', `'${words.inserted}`), code: '.' },
  { batch: insert('at', `2026-01-01 00:00 Asia/${words.inserted}`), code: '.' },
  { batch: insert('at', `2026-01-01 00:00 ${words.inserted}`), code: '.' },
  // Names of missing tables, roles and types.
  ...['thing', 'who', 'kind'].map(column => ({
    batch: insert(column, words.inserted),
    code: 'undefined_(table|object)',
    allowed: ['inserted'] as const
  })),
  { batch: insert('kind', `${words.inserted}[`), code: '.' },
  {
    batch: [...insert('word', words.referred), {
      id: 'b',
      op: 'insert',
      table: 'kinds',
      values: [{ n: '$a.0.word' }]
    }],
    code: 'invalid_text_representation'
  },
  {
    batch: [...insert('word', words.referred), {
      id: 'b',
      op: 'select',
      table: 'kinds',
      where: { day: { in: '$a.*.word' } }
    }],
    code: 'invalid_datetime_format'
  },
  ...['n', 'mood', 'day', 'uuid', 'address'].map(column => ({
    batch: select({ [column]: { eq: words.filtered } }),
    code: '.'
  })),
  { batch: select({ n: { in: [1, words.filtered] } }), code: '.' },
  { batch: select({ word: { match: `(${words.filtered}` } }), code: 'invalid_regular_expression' },
  { batch: select({ found: { fts: `${words.filtered} (` } }), code: '.' },
  {
    batch: select({ found: { fts: { query: 'x', config: words.filtered } } }),
    code: 'undefined_object',
    allowed: ['filtered']
  },
  {
    batch: [{ id: 'a', op: 'update', table: 'kinds', set: { n: words.inserted }, all: true }],
    code: 'invalid_text_representation'
  },
  // Rows that the role may not see, and columns that the request does not name.
  {
    batch: [{
      id: 'a',
      op: 'insert',
      table: 'people',
      values: [{ id: 2, email: `${words.hidden}@example.org` }],
      returning: []
    }],
    code: 'unique_violation'
  },
  {
    batch: [{
      id: 'a',
      op: 'insert',
      table: 'people',
      values: [{ id: 2, email: words.inserted, secret: 'bad' }],
      returning: []
    }],
    code: 'check_violation'
  },
  {
    batch: [{
      id: 'a',
      op: 'insert',
      table: 'people',
      values: [{ id: 2, email: words.inserted, needed: null }],
      returning: []
    }],
    code: 'not_null_violation'
  },
  {
    batch: [{ id: 'a', op: 'insert', table: 'pets', values: [{ owner: 99 }] }],
    code: 'foreign_key_violation'
  },
  {
    batch: [{ id: 'a', op: 'insert', table: 'pets', values: [{ n: 1 }, { n: 1 }] }],
    code: 'unique_violation'
  },
  { batch: [{ id: 'a', op: 'select', table: 'revealing' }], code: 'invalid_text_representation' },
  { batch: [{ id: 'a', op: 'select', table: 'looking' }], code: 'syntax_error' },
  {
    batch: [{ id: 'a', op: 'select', table: 'raising' }],
    code: 'raise_exception',
    allowed: ['raised']
  },
  { batch: [{ id: 'a', op: 'select', table: 'choosing' }], code: 'PT422', allowed: ['raised'] },
  // Other errors of a batch.
  { batch: [{ id: 'a', op: 'select', table: 'napping' }], code: 'query_canceled' },
  {
    batch: [{
      id: 'a',
      op: 'select',
      table: 'private.things',
      where: { n: { eq: words.filtered } }
    }],
    code: 'validation_failed'
  },
  {
    batch: op({ op: 'select', table: words.filtered }),
    code: 'undefined_table',
    allowed: ['filtered']
  },
  {
    batch: select({ [words.filtered]: { eq: 1 } }),
    code: 'undefined_column',
    allowed: ['filtered']
  },
  {
    batch: [...insert('word', words.inserted), {
      id: 'b',
      op: 'insert',
      table: 'kinds',
      values: [{ word: '$a.1.word' }]
    }],
    code: 'reference_row_missing'
  },
  { batch: select({ word: { eq: words.filtered } }, { expect: 1 }), code: 'expectation_failed' },
  {
    batch: op({ values: Array(4).fill({ word: words.inserted }) }),
    code: 'rows_limit|validation_failed'
  },
  // Invalid batches.
  { batch: select({ word: { is: words.filtered } }), code: 'validation_failed' },
  { batch: select({ word: { between: [words.filtered] } }), code: 'validation_failed' },
  { batch: select({ word: { eq: { $value: words.json, x: 1 } } }), code: 'validation_failed' },
  { batch: select({ word: { in: words.filtered } }), code: 'validation_failed' },
  { batch: select({ word: words.filtered }), code: 'validation_failed' },
  {
    batch: select({ word: { eq: `$${words.referred}.0.x` } }),
    code: 'validation_failed',
    allowed: ['referred']
  },
  {
    batch: select({}, {
      limit: words.malformed,
      offset: words.malformed,
      order: words.malformed,
      columns: words.malformed,
      lock: words.malformed,
      expect: words.malformed
    }),
    code: 'validation_failed'
  },
  {
    batch: [{ id: 'a', op: words.malformed, table: 'kinds' }],
    code: 'validation_failed',
    allowed: ['malformed']
  },
  {
    batch: [{ id: 'a', op: 'insert', table: 'kinds', values: words.inserted }],
    code: 'validation_failed'
  },
  {
    batch: [{ id: 'a', op: 'insert', table: 'kinds', values: [words.inserted] }],
    code: 'validation_failed'
  },
  {
    batch: [{ id: words.malformed }, { id: words.malformed }],
    code: 'id_duplicate',
    allowed: ['malformed']
  },
  { batch: words.malformed, code: 'body_invalid' },
  { batch: `["${words.malformed}`, code: 'body_invalid' },
  {
    batch: `[{"${words.malformed}":1,"${words.malformed}":2}]`,
    code: 'body_invalid',
    allowed: ['malformed']
  },
  { batch: `["${words.malformed}\\u0000"]`, code: 'body_invalid' },
  { batch: `["${words.malformed}\\ud800"]`, code: 'body_invalid' },
  { batch: `{"${words.malformed}":1}`, code: 'body_invalid' },
  { batch: `["${words.malformed}"]`, code: 'id_missing' },
  { batch: JSON.stringify([words.malformed.repeat(100)]), code: 'body_too_large' },
  // Headers and URLs.
  {
    batch: select({}),
    code: undefined,
    headers: {
      'x-secret': words.header,
      cookie: `session=${words.cookie}`,
      'user-agent': words.agent,
      referer: `http://x/${words.header}`,
      'x-forwarded-for': words.header,
      origin: `http://${words.header}`
    },
    path: `/?token=${words.query}`
  },
  {
    batch: select({}),
    code: undefined,
    headers: { prefer: `handling=lenient, return=${words.prefer}, ${words.prefer}=1, tx=rollback` }
  },
  {
    batch: select({}),
    code: 'prefer_invalid',
    headers: { prefer: `handling=strict, ${words.prefer}` },
    allowed: ['prefer']
  },
  {
    batch: select({}),
    code: 'prefer_invalid',
    headers: { prefer: `handling=strict, tx=${words.prefer}` },
    allowed: ['prefer']
  },
  {
    batch: select({}),
    code: 'idempotency_key_invalid',
    headers: { 'idempotency-key': words.idempotency }
  },
  {
    batch: select({}),
    code: 'content_type_unsupported',
    headers: { 'content-type': `application/${words.media}` }
  },
  {
    batch: select({}),
    code: 'content_type_unsupported',
    headers: { 'content-encoding': words.media }
  },
  { batch: select({}), code: undefined, headers: { 'x-request-id': `${words.requestId} !` } },
  {
    batch: select({}),
    code: 'token_invalid',
    headers: { authorization: `Basic ${Buffer.from(`user:${words.basic}`).toString('base64')}` }
  },
  {
    batch: select({}),
    code: 'token_invalid',
    headers: { authorization: `Bearer ${words.badToken}` }
  },
  {
    batch: select({}),
    code: 'token_invalid',
    headers: {
      authorization: `Bearer ${
        token({ role: 'oneflight_user', x: words.badClaim }, `another ${SECRET}`)
      }`
    }
  },
  {
    batch: select({}),
    code: 'token_expired',
    headers: {
      authorization: `Bearer ${
        token({ role: 'oneflight_user', x: words.badClaim, exp: 1 }, words.secret)
      }`
    }
  },
  {
    batch: select({}),
    code: 'token_claims_invalid',
    headers: {
      authorization: `Bearer ${
        token({ role: 'oneflight_user', aud: words.badClaim, exp: words.badClaim }, words.secret)
      }`
    }
  },
  {
    batch: select({}),
    code: 'token_claims_invalid',
    headers: { authorization: `Bearer ${token({ role: { x: words.badClaim } }, words.secret)}` }
  },
  {
    batch: select({}),
    code: 'role_denied',
    headers: {
      authorization: `Bearer ${token({ role: 'postgres', x: words.badClaim }, words.secret)}`
    }
  },
  { code: 'not_found', path: `/nothing?${words.query}`, method: 'GET' },
  { code: 'method_not_allowed', path: `/?${words.query}`, method: 'GET' },
  { code: 'http_malformed', path: `/%zz?${words.query}`, method: 'GET' },
  { code: 'headers_too_large', headers: { 'x-secret': words.header.repeat(1000) }, method: 'GET' }
]

const role = 'oneflight_user'
const login = `oneflight_secrets_${process.pid}`

/**
 * Starts a service with secrets in its configuration and database URL, and with log level trace.
 */
async function useSecretService (
  t: Test,
  options: UseServiceOptions = {}
): Promise<ServiceUnderTest> {
  await ensureRoles(TEST_ROLES)
  await ensureRoles([login], `login noinherit password '${words.password}é'`)
  await withAdmin(admin => admin.unsafe(`grant ${role}, oneflight_other to ${login}`))
  return useService(t, {
    schema,
    databaseUrl: url => withSecrets(url),
    ...options,
    env: { JWT_SECRET: words.secret, LOG_LEVEL: 'trace', ...options.env }
  })
}

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

t.teardown(() =>
  withAdmin(async admin => {
    await admin.unsafe(`drop owned by ${login}; drop role ${login}`)
  })
)

t.test('no request, valid or invalid, reveals secrets or data', async t => {
  for (const verbosity of ['terse', 'verbose']) {
    const service = await useSecretService(t, {
      env: {
        ERROR_VERBOSITY: verbosity,
        MAX_BODY_BYTES: '2000',
        MAX_ROWS: '3',
        STATEMENT_TIMEOUT_MS: '3000',
        POOL_SIZE: '2'
      }
    })
    const bearer = token({ role, exp: 9_999_999_999, email: words.claim }, words.secret)
    watch('token', bearer.slice(-40))
    for (const { batch, code, headers = {}, path = '/', method = 'POST', allowed = [] } of rows) {
      const answer = await ask(service.url + path, {
        method,
        headers: {
          'content-type': 'application/json',
          authorization: `Bearer ${bearer}`,
          ...headers
        },
        ...(batch === undefined
          ? {}
          : { body: typeof batch === 'string' ? batch : JSON.stringify(batch) })
      })
      const label = `${verbosity}: ${code ?? 'ok'} ${path} ${JSON.stringify(headers)} ${
        JSON.stringify(batch)
      } ${answer.text}`
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

t.test('overload, lost connections and failed responses reveal nothing', async t => {
  const service = await useSecretService(t, {
    env: { POOL_SIZE: '1', QUEUE_SIZE: '1', QUEUE_TIMEOUT_MS: '60000' }
  })
  const post = (batch: unknown): Promise<Answer> =>
    ask(service.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${token({ role, email: words.claim }, words.secret)}`
      },
      body: JSON.stringify(batch)
    })
  const { sql } = service.database
  const seen = new Set<string>()
  const check = ({ status, text, body }: Answer): void => {
    seen.add(status === 200 ? 'ok' : String(body.error.code))
    if (status !== 200) t.same(leaks(text), [], text)
  }
  t.equal((await post(insert('doc', { x: words.json }))).status, 200)
  const napping = post([...insert('word', words.inserted), {
    id: 'n',
    op: 'select',
    table: 'napping'
  }])
  await until(async () =>
    (await sql`select from pg_stat_activity where datname = current_database()
      and wait_event = 'PgSleep'`)
      .length > 0
  )
  // One of them waits, which fills the queue.
  const more = [1, 2].map(() => post(insert('word', words.inserted)).then(check))
  await Promise.race(more)
  await sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and usename = ${login} and wait_event = 'PgSleep'`
  check(await napping)
  await Promise.all(more)
  forbidAnswers(t)
  check(await post(insert('word', words.inserted)))
  t.same([...seen].sort(), ['commit_unknown', 'database_unavailable', 'ok', 'overloaded'])
  await assertNoLeaks(t, service, 'faults')
})

t.test('a connection reset during a batch reveals nothing', async t => {
  const database = await useDatabase(t, { schema })
  const proxy = await useProxy(t, database.loginUrl)
  const service = await useSecretService(t, {
    databaseUrl: () => withSecrets(proxy.through(database.loginUrl)),
    env: { POOL_SIZE: '1', REQUEST_TIMEOUT_MS: '3000' }
  })
  const batch = [...insert('word', words.inserted), {
    id: 'n',
    op: 'select',
    table: 'napping',
    where: { slept: { eq: words.filtered } }
  }]
  const headers = {
    'content-type': 'application/json',
    authorization: `Bearer ${token({ role, email: words.claim }, words.secret)}`
  }
  const running = ask(service.url, { method: 'POST', headers, body: JSON.stringify(batch) })
  await until(async () =>
    (await database
      .sql`select from pg_stat_activity where datname = current_database()
        and wait_event = 'PgSleep'`)
      .length > 0
  )
  proxy.open = false
  proxy.cut('reset')
  const answer = await running
  t.match(answer.body.error?.code, /database_unavailable|commit_unknown/)
  t.same(leaks(answer.text + headersOf(answer)), [])
  await until(() => service.log.some(({ msg }) => msg === 'could not connect to the database'))
  await assertNoLeaks(t, service, 'reset')
})

/** A PostgreSQL server that requests the password and rejects it. Returns its port. */
async function useRejectingServer (t: Test): Promise<number> {
  const message = (type: string, content: string): Buffer => {
    const bytes = Buffer.from(`${type}xxxx${content}`)
    bytes.writeUInt32BE(bytes.length - 1, 1)
    return bytes
  }
  const server = createServer(socket => {
    socket.on('error', () => {}).once('data', () => {
      socket.write(message('R', '\0\0\0\x03'))
      // The error repeats the password. PostgreSQL never does this, but a proxy may.
      socket.once('data', sent => {
        const detail = sent.toString('latin1').replaceAll('\0', '')
        const text = 'password authentication failed for user "app"'
        socket.end(message('E', `SFATAL\0VFATAL\0C28P01\0M${text}\0D${detail}\0\0`))
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
  })
  return (server.address() as AddressInfo).port
}

t.test('an unreachable database reveals nothing', async t => {
  const strict = await useRejectingServer(t)
  const file = join(
    t.testdir({
      'bad.pem': `-----BEGIN CERTIFICATE-----\n${words.malformed}\n-----END CERTIFICATE-----\n`
    }),
    'bad.pem'
  )
  const changes: ReadonlyArray<readonly [reason: RegExp, change: (url: string) => string]> = [
    [/ECONNREFUSED/, url => url.replace(/@[^/]+/, '@127.0.0.1:1')],
    [/ECONNREFUSED/, url => url.replace(/:(%..)+@[^/]+/, `:${words.password}@127.0.0.1:1`)],
    [/password authentication failed/, url => url.replace(/@[^/]+/, `@127.0.0.1:${strict}`)],
    [
      /password authentication failed/,
      url => `${url.replace(/@[^/]+/, `@127.0.0.1:${strict}`)}&password=${words.queryPassword}`
    ],
    [/does not exist/, url => url.replace(/(@[^/]+\/)\w+/, '$1no_such_database')],
    [/./, url => `${url.replace(login, 'nobody_knows_this_role')}&password=${words.queryPassword}`],
    [/./, url => `${url}&sslmode=verify-full&sslrootcert=${encodeURIComponent(file)}`],
    [/ENOENT/, url => `${url}&sslmode=verify-full&sslrootcert=/nowhere/ca.pem`],
    [/./, url => `${url.replace(/@[^/]+/, `@127.0.0.1:${strict}`)}&sslmode=require`]
  ]
  for (const [reason, change] of changes) {
    const service = await useSecretService(t, { databaseUrl: url => change(withSecrets(url)) })
    const answer = await ask(service.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${token({ role }, words.secret)}`
      },
      body: JSON.stringify(insert('word', words.inserted))
    })
    t.match(
      answer,
      { status: 503, body: { error: { code: 'database_unavailable' } } },
      String(change)
    )
    t.same(leaks(answer.text + headersOf(answer)), [])
    const line = await until(() =>
      service.log.find(({ msg }) => msg === 'could not connect to the database')
    )
    t.match(line['reason'], reason, String(change))
    await assertNoLeaks(t, service, String(change))
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
  const rows: ReadonlyArray<
    readonly [
      env: Readonly<Record<string, string>>,
      behave: typeof server.behave,
      code: string | undefined
    ]
  > = [
    [{ JWT_PUBLIC_KEY: pem }, set(jwk), undefined],
    [{ JWT_JWKS: jwks(jwk) }, set(jwk), undefined],
    [{ JWT_JWKS_URL: url }, set(jwk), undefined],
    [
      { JWT_JWKS_URL: url },
      set({ kty: words.keyBody, kid: words.keyId }, privateJwk(pair, { kid: words.keyId })),
      'token_invalid'
    ],
    [{ JWT_JWKS_URL: url }, answering(words.keyBody, { status: 500 }), 'keys_unavailable'],
    [{ JWT_JWKS_URL: url }, answering(`{"keys": ${words.keyBody}`), 'keys_unavailable'],
    [
      { JWT_JWKS_URL: url },
      redirect(`${server.url}?${words.keyBody}`, 302, words.keyBody),
      'keys_unavailable'
    ],
    [
      { JWT_JWKS_URL: `http://127.0.0.1:1/keys?key=${words.keyQuery}` },
      set(jwk),
      'keys_unavailable'
    ],
    [
      { JWT_JWKS_URL: `https://127.0.0.1:${new URL(server.url).port}/keys?key=${words.keyQuery}` },
      set(jwk),
      'keys_unavailable'
    ]
  ]
  for (const [env, behave, code] of rows) {
    server.behave = behave
    const service = await useSecretService(t, { env: { JWT_SECRET: '', ...env } })
    const label = `${Object.keys(env)} ${code}`
    const tokens = [
      [bearer, code],
      [`${bearer.slice(0, -8)}AAAAAAAA`, code ?? 'token_invalid'],
      [unknownKey, '.']
    ] as const
    for (const [authorization, expected] of tokens) {
      const answer = await ask(service.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${authorization}` },
        body: JSON.stringify(insert('word', words.inserted))
      })
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
  const child = spawn(process.execPath, [
    '--disable-warning=ExperimentalWarning',
    join(import.meta.dirname, '../../src/main.ts')
  ], {
    env: childEnvironment({
      HTTP_PORT: '0',
      ADMIN_HTTP_PORT: '0',
      LOG_LEVEL: 'trace',
      SHUTDOWN_DELAY_MS: '0',
      ...env
    }),
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      output += bytes.toString()
    })
  }
  const closed = once(child, 'close')
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  if (use !== undefined) {
    const address = (name: string): Promise<string> =>
      until(() => new RegExp(`${name} server listening at (http://[^"]+)`).exec(output)?.[1])
    await use(await address('main'), await address('admin'))
    child.kill('SIGTERM')
  }
  const [code] = await closed
  return { output, code }
}

t.test('the output of the process reveals nothing from start to exit', async t => {
  const { loginUrl } = await useSecretService(t).then(({ database }) => database)
  const { output, code } = await runMain(t, {
    DATABASE_URL: withSecrets(loginUrl),
    JWT_SECRET: words.secret
  }, async (url, adminUrl) => {
    const post = (authorization: string): Promise<Answer> =>
      ask(`${url}/?${words.query}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization, cookie: words.cookie },
        body: JSON.stringify(insert('word', words.inserted))
      })
    t.equal((await post(`Bearer ${token({ role, email: words.claim }, words.secret)}`)).status, 200)
    t.equal((await post(`Bearer ${words.badToken}`)).status, 401)
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

t.test('a rejected configuration is explained without secrets', async t => {
  const pair = keyPair('rsa')
  const secretPem = privatePem(pair)
  watch('private pem', (secretPem.split('\n')[2] as string).slice(0, 40))
  watch('private jwk', (privateJwk(pair).d as string).slice(0, 40))
  const marked = (text: string): string => text.replace('\n', `\n${words.keyBody}\n`)
  const url = `postgres://app:${words.password}@db/shop`
  const base = { DATABASE_URL: url, JWT_SECRET: words.secret }
  const without = { DATABASE_URL: url }
  const environments: ReadonlyArray<Readonly<Record<string, string>>> = [
    { ...without, JWT_SECRET: words.secret.slice(0, 25) },
    { ...without, JWT_SECRET: secretPem },
    { ...without, JWT_SECRET: publicPem(pair) },
    { ...without, JWT_SECRET: JSON.stringify(privateJwk(pair)) },
    { ...without, JWT_SECRET: jwks({ kty: 'oct', k: words.keyBody }) },
    { ...without, JWT_PUBLIC_KEY: words.keyBody },
    { ...without, JWT_PUBLIC_KEY: secretPem },
    { ...without, JWT_PUBLIC_KEY: marked(publicPem(pair)) },
    { ...without, JWT_PUBLIC_KEY: `${publicPem(pair)}${words.keyBody}` },
    { ...without, JWT_PUBLIC_KEY: publicPem(pair) + publicPem(keyPair('p256')) },
    { ...without, JWT_PUBLIC_KEY: publicPem(keyPair('weakRsa')) },
    { ...without, JWT_PUBLIC_KEY: publicPem(keyPair('secp256k1')) },
    { ...without, JWT_JWKS: words.keyBody },
    { ...without, JWT_JWKS: `{"keys": ["${words.keyBody}"]}` },
    {
      ...without,
      JWT_JWKS:
        `{"keys": [{"kty": "RSA", "kid": "${words.keyId}", "n": "${words.keyBody}", "e": "AQAB"}]}`
    },
    { ...without, JWT_JWKS: jwks(privateJwk(pair, { kid: words.keyId })) },
    { ...without, JWT_JWKS: jwks({ kty: 'oct', k: words.keyBody, kid: words.keyId }) },
    { ...without, JWT_JWKS: `{"keys": [], "keys": ["${words.keyBody}"]}` },
    ...[
      `https://user:${words.keyQuery}@id/keys`,
      `https://${words.keyQuery}@id/keys`,
      `https://id/keys#${words.keyQuery}`,
      `ftp://id/${words.keyQuery}`,
      `${words.keyQuery}`,
      `http://[${words.keyQuery}`
    ].map(JWT_JWKS_URL => ({ ...without, JWT_JWKS_URL })),
    { ...base, JWT_PUBLIC_KEY: publicPem(pair), JWT_JWKS: jwks(publicJwk(pair)) },
    { ...base, JWT_JWKS_URL: `https://id/keys?${words.keyQuery}` },
    { ...base, JWT_ALGORITHMS: 'RS256' },
    { ...base, JWT_SECRETS: words.variable },
    { ...base, JWT_ALGORITHM: words.variable },
    { ...base, POOL_SIZE: '0' },
    ...[
      `mysql://app:${words.password}@db/shop`,
      `postgres://app:${words.password}@x@db/shop`,
      `postgres://app:x/${words.password}@db/shop`,
      `postgres://app:%zz${words.password}@db/shop`,
      `postgres://:${words.password}@db/shop`,
      `postgres://app:${words.password}@[db/shop`,
      `postgres://app:${words.password}@d b/shop`,
      `postgres://app:${words.password}@db:x/shop`,
      `postgres://app:${words.password}@db:1,db:2/shop?port=1,2,3`,
      `${url}?password=${words.queryPassword}&password=x`,
      `${url}?${words.option}=1`,
      `${url}?password=a&${words.queryPassword}`,
      `${url}?connect_timeout=${words.option}`,
      `${url}?sslmode=${words.option}`,
      `${url}?target_session_attrs=${words.option}`,
      `${url}?options=%zz${words.option}`,
      `${url}?sslrootcert=${words.option}`,
      `${url}?application_name=&options=${words.option}`,
      `${url}?passwort=${words.queryPassword}`,
      words.password,
      `app:${words.password}@db`
    ].map(DATABASE_URL => ({ JWT_SECRET: words.secret, DATABASE_URL }))
  ]
  for (const env of environments) {
    // The process prints the message of the thrown error. It runs only for two of the
    // environments, because each run takes a second.
    const printed = [messageOf(env)]
    if (env === environments[0] || env === environments.at(-1)) {
      const { output, code } = await runMain(t, env)
      t.equal(code, 1)
      t.match(output, /^(oneflight: [^\n]+\n)+$/)
      printed.push(output)
    }
    t.same(leaks(printed.join()), [], `${JSON.stringify(env)} ${printed.join()}`)
  }
})

/** The error message for an invalid configuration. */
function messageOf (env: Readonly<Record<string, string>>): string {
  try {
    readConfig(env)
  } catch (error) {
    return (error as Error).message
  }
  throw new Error(`this configuration is valid: ${JSON.stringify(env)}`)
}

t.test('a failed start and a forced shutdown reveal nothing', async t => {
  const { database } = await useSecretService(t)
  const taken = createServer()
  taken.listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => {
    taken.close()
  })
  const env = { DATABASE_URL: withSecrets(database.loginUrl), JWT_SECRET: words.secret }
  const failed = await runMain(t, {
    ...env,
    HTTP_PORT: String((taken.address() as AddressInfo).port)
  })
  t.equal(failed.code, 1)
  t.match(failed.output, /could not start/)
  t.same(leaks(failed.output), [])
  const thrown = `--import=data:text/javascript,${
    encodeURIComponent(
      "process.on('SIGUSR2', () => { throw Object.assign(new " +
        'Error(process.env.DATABASE_URL), { env: process.env }) })'
    ).replaceAll("'", '%27')
  }`
  const forced = await runMain(t, {
    ...env,
    SHUTDOWN_TIMEOUT_MS: '200',
    NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} ${thrown}`
  }, async url => {
    ask(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${token({ role, email: words.claim }, words.secret)}`
      },
      body: JSON.stringify([...insert('word', words.inserted), {
        id: 'n',
        op: 'select',
        table: 'napping'
      }])
    }).catch(() => {})
    await until(async () =>
      (await database
        .sql`select from pg_stat_activity where datname = current_database()
          and wait_event = 'PgSleep'`)
        .length > 0
    )
  })
  t.equal(forced.code, 1)
  t.match(forced.output, /shutdown timed out/)
  t.same(leaks(forced.output), [])
})
