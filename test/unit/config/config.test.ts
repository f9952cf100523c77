/** Tests the configuration: valid values, and that all problems are reported without secrets. */
import t from 'tap'
import {
  printableConfig,
  readConfig,
  type ConfigError,
  type Environment
} from '../../../src/config/config.ts'
import { configItems, type Config } from '../../../schemas/config.ts'

const CANARY = 'hunter2-hunter2-hunter2-hunter2-hunter2'
const base = {
  DATABASE_URL: `postgres://app:${CANARY}@db.internal:6432/shop?application_name=x`,
  JWT_SECRET: CANARY
}
const paths = 'expected a comma-separated list of claims or dotted paths such as'
const other = `postgres://reader:${CANARY}@standby/copy`
const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }

const problemsOf = (env: Environment): readonly string[] => {
  try {
    readConfig(env)
    return []
  } catch (error) {
    const { name, message, problems } = error as ConfigError
    t.equal(name, 'ConfigError')
    t.equal(message, problems.join('\n'))
    t.notMatch(message, /hunter2/)
    return problems
  }
}

t.test('every file and folder that cannot be read is reported with the other problems', async t => {
  const folder = t.testdir({ 'ca.crt': '' })
  const tls = (...parameters: readonly string[]): string =>
    `postgres://app:${CANARY}@db/shop?sslmode=verify-full&${parameters.join('&')}`
  const missing = ['sslrootcert=/no/ca.crt', 'sslcert=/no/c.crt', 'sslkey=/no/c.key']
  const lines = (name: string): readonly string[] =>
    missing.map(parameter => {
      const [key, path] = parameter.split('=')
      return `${name}: the file of ${key}, ${path} cannot be read (ENOENT)`
    })
  t.strictSame(problemsOf({ ...base, MAX_OPS: 'x', BATCHES_DIR: '/nope' }), [
    'MAX_OPS: expected an integer from 1 to 1000, got "x"',
    'BATCHES_DIR: the folder /nope cannot be read (ENOENT)'
  ])
  const url = tls(...missing)
  t.strictSame(problemsOf({ ...base, DATABASE_URL: url, DATABASE_REPLICA_URL: url }), [
    ...lines('DATABASE_URL'), ...lines('DATABASE_REPLICA_URL')
  ])
  t.strictSame(problemsOf({
    ...base, BATCHES_DIR: folder, DATABASE_URL: tls(`sslrootcert=${folder}/ca.crt`)
  }), [])
  t.strictSame(problemsOf({ ...base, DATABASE_URL: tls('sslrootcert=system') }), [])
  const unused = `postgres://app:${CANARY}@db/shop?sslmode=disable&sslrootcert=/no/ca.crt`
  t.strictSame(problemsOf({ ...base, DATABASE_URL: unused }), [])
})

t.test('unset variables have their defaults', async t => {
  const { config, database, replica, tracing } = readConfig(base)
  t.strictSame({ replica, tracing }, { replica: undefined, tracing: false })
  // Computed ones, and those that keep something closed. schemas/config.ts has the others.
  t.match(config, {
    ...base,
    HTTP_HOST: '127.0.0.1',
    ADMIN_HTTP_HOST: '127.0.0.1',
    JWT_ALGORITHMS: ['HS256', 'HS384', 'HS512'],
    JWT_REQUIRE_EXP: true,
    MAX_STREAM_ROWS: 0,
    MAX_UPLOAD_ROWS: 0,
    POOL_SIZE: 10,
    QUEUE_SIZE: 40,
    EXPLAIN: 'off',
    API_TABLES: 'off',
    MCP: 'off',
    SQL_COMMENTS: 'off',
    ERROR_VERBOSITY: 'terse'
  })
  t.match(database, {
    hosts: [{ host: 'db.internal', port: 6432 }],
    user: 'app',
    password: CANARY,
    database: 'shop'
  })
})

t.test('valid values are read', async t => {
  const rows: ReadonlyArray<readonly [Environment, Partial<Config>]> = [
    [{ HTTP_PORT: '0', ADMIN_HTTP_PORT: '0' }, { HTTP_PORT: 0, ADMIN_HTTP_PORT: 0 }],
    [{ HTTP_PORT: '80', ADMIN_HTTP_PORT: '80', ADMIN_HTTP_HOST: '127.0.0.2' },
      { HTTP_PORT: 80, ADMIN_HTTP_PORT: 80 }],
    [{ WORKERS: '64', POOL_SIZE: '3' }, { WORKERS: 64, POOL_SIZE: 3, QUEUE_SIZE: 12 }],
    // WORKERS has no prefix in common with other variables, so similar names are not reported.
    [{ WORK: 'x', WORKERS_MAX: 'x', W: 'x' }, { WORKERS: 1 }],
    [{ POOL_SIZE: '3', QUEUE_SIZE: '0' }, { POOL_SIZE: 3, QUEUE_SIZE: 0 }],
    [{ POOL_SIZE: '', ANON_ROLE: '', HTTP_HOST: undefined },
      { POOL_SIZE: 10, HTTP_HOST: '127.0.0.1' }],
    [{ IDEMPOTENCY_SCOPE: 'tenant', IDEMPOTENCY_IGNORED_CLAIMS: 'session_id, app_metadata.plan' },
      {
        IDEMPOTENCY_SCOPE: ['tenant'],
        IDEMPOTENCY_IGNORED_CLAIMS: ['session_id', 'app_metadata.plan']
      }],
    [{ JWT_REQUIRE_EXP: 'false' }, { JWT_REQUIRE_EXP: false }],
    [{ JWT_REQUIRE_EXP: 'true' }, { JWT_REQUIRE_EXP: true }],
    [{ DB_SCHEMAS: 'api,Private Stuff' }, { DB_SCHEMAS: ['api', 'Private Stuff'] }],
    [{ DB_EXTRA_SEARCH_PATH: 'ext, v1.2' }, { DB_EXTRA_SEARCH_PATH: ['ext', 'v1.2'] }],
    [{ ANON_ROLE: 'é'.repeat(31) }, { ANON_ROLE: 'é'.repeat(31) }],
    // Unrelated variables are ignored, even if they share a prefix with a setting or if Kubernetes
    // derives them from the name of a Service.
    [
      {
        PATH: '/bin',
        HTTP_PROXY: 'x',
        DATABASE_NAME: 'x',
        QUEUE_SERVICE_HOST: 'x',
        QUEUE_PORT_80_TCP: 'x',
        MAX: 'x',
        MAXIMUM_X: 'x'
      },
      {}
    ]
  ]
  for (const [env, expected] of rows) {
    t.match(readConfig({ ...base, ...env }).config, expected, JSON.stringify(env))
  }
  t.notOk('ANON_ROLE' in readConfig({ ...base, ANON_ROLE: '' }).config, 'empty counts as unset')
})

/** Values of one variable that are invalid, and the fault without its name. `*` is the value. */
const invalid: ReadonlyArray<readonly [name: string, fault: string, ...values: string[]]> = [
  ['DATABASE_URL', 'required', ''],
  ['DATABASE_URL', 'expected postgres://user:password@host:port/database', `mysql://${CANARY}`],
  ['DATABASE_URL', 'has the unknown parameter pass', `postgres://app:x@db/shop?pass=${CANARY}`],
  ['POOL_SIZE', 'expected an integer from 1 to 1000, got "*"',
    ...['10abc', '1e3', ' 1', '-1', '01', '0', '1001', '9'.repeat(16)]],
  ['POOL_SIZE', `expected an integer from 1 to 1000, got "${'x'.repeat(100)}…"`, 'x'.repeat(101)],
  ['LOCK_TIMEOUT_MS', 'expected an integer from 1 to 3600000 ms, got "*"', '0'],
  ['JWT_REQUIRE_EXP', 'expected true or false, got "*"', 'yes'],
  ['LOG_LEVEL', 'expected one of trace, debug, info, warn, error, fatal, silent, got "*"', 'INFO'],
  ['JWT_ROLE_CLAIM', 'expected a dotted path such as app_metadata.role, got "*"', 'a..b'],
  ['IDEMPOTENCY_TTL', 'expected 1 to 999999 s, m, h or d, got "*"', '24', '0h'],
  ['IDEMPOTENCY_SCOPE', `${paths} app_metadata.tenant, got "*"`, 'tenant,a..b'],
  ['DATABASE_ENGINE', 'expected one of postgresql, citus, sequential, got "*"', 'oracle'],
  ['MAX_BYTES_IN_FLIGHT', 'must be at least MAX_BODY_BYTES (1048576)', '1000'],
  ['SHUTDOWN_DELAY_MS', 'must be less than SHUTDOWN_TIMEOUT_MS (25000)', '25000'],
  ['JWT_AUD', 'expected a comma-separated list without empty elements, got "*"', 'a,'],
  ['ANON_ROLE', 'expected 1 to 63 bytes, got "*"', 'é'.repeat(32)],
  ['ANON_ROLE', '"*" is reserved by PostgreSQL', 'none', 'pg_monitor'],
  ['ANON_ROLE', 'must differ from the login role of DATABASE_URL', 'app'],
  ['ADHOC_BATCHES', '"off" cannot be in a list of roles', 'a,off'],
  ['DB_SCHEMAS', '"api.v2" contains a dot, so operations cannot name its tables', 'api,api.v2'],
  ...['DB_SCHEMAS', 'DB_EXTRA_SEARCH_PATH'].flatMap(name => [
    [name, '"ext" is given twice', 'ext,public,ext'] as const,
    [name, 'name 2 is longer than 63 bytes', `ext,${'x'.repeat(64)}`] as const,
    [name, '"$user" is not the name of a schema', 'api,$user'] as const,
    ...['pg_temp_3', 'information_schema'].map(schema =>
      [name, `"${schema}" is reserved by PostgreSQL`, `api,${schema}`] as const
    )
  ]),
  ['ADMIN_HTTP_PORT', 'must differ from HTTP_PORT on the same address', '4000'],
  ['DATABASE_REPLICA_URL', 'expected postgres://user:password@host:port/database', 'x'],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'expected an http:// or https:// URL', CANARY],
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'expected an http:// or https:// URL',
    `grpc://${CANARY}:4317`],
  ...['IDLE_TRANSACTION_TIMEOUT_MS', 'DATABASE_ROUTES', 'MAX_WORK'].map(name =>
    [name, 'removed, see CHANGELOG.md', CANARY] as const),
  ...Object.entries({
    DB_EXTRA_SEARCH: 'DB_EXTRA_SEARCH_PATH',
    JWT_SERCET: 'JWT_SECRET',
    DATABASE_REPLICA: 'DATABASE_REPLICA_URL'
  }).map(([name, meant]) => [name, `unknown variable; did you mean ${meant}?`, CANARY] as const)
]

const origins = 'expected origins such as https://app.example.com or *, got'
/** Variables that are invalid together. jwt-keys.test.ts has those of keys and algorithms. */
const conflicts: ReadonlyArray<readonly [env: Environment, ...faults: string[]]> = [
  ...['127.0.0.1', '0.0.0.0', '::'].map(HTTP_HOST =>
    [
      { HTTP_HOST, HTTP_PORT: '9568' },
      'ADMIN_HTTP_PORT: must differ from HTTP_PORT on the same address'
    ] as const
  ),
  [{ POOL_SIZE: 'x', MAX_OPS: 'x', POOL_MAX: '1', DATABASE_URL: 'x' },
    'POOL_MAX: unknown variable; did you mean POOL_SIZE?',
    'MAX_OPS: expected an integer from 1 to 1000, got "x"',
    'POOL_SIZE: expected an integer from 1 to 1000, got "x"',
    'DATABASE_URL: expected postgres://user:password@host:port/database'],
  [{ DATABASE_REPLICA_URL: other }, 'DATABASE_REPLICA_URL: must have the same user as DATABASE_URL',
    'DATABASE_REPLICA_URL: must have the same database as DATABASE_URL'],
  [{ DATABASE_URL: '', DATABASE_REPLICA_URL: other }, 'DATABASE_URL: required'],
  ...([
    ['app.example.com', `${origins} "app.example.com"`],
    ['https://app.example.com/',
      `${origins} "https://app.example.com/" (its origin is https://app.example.com)`],
    ['https://app.example.com,*', '* cannot be combined with origins']
  ] as const).map(([CORS_ORIGINS, fault]) =>
    [{ CORS_ORIGINS }, `CORS_ORIGINS: ${fault}`] as const),
  [{ ...collector, OTEL_TRACES_EXPORTER: 'zipkin', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
    'OTEL_TRACES_EXPORTER: expected otlp', 'OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf'],
  [{ ...collector, OTEL_TRACES_SAMPLER: 'nonsense', OTEL_TRACES_SAMPLER_ARG: '1.5' },
    'OTEL_TRACES_SAMPLER: expected a sampler such as parentbased_traceidratio',
    'OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1']
]

t.test('invalid values are reported', async t => {
  for (const [name, fault, ...values] of invalid) {
    for (const value of values) {
      const expected = `${name}: ${fault.replace('*', value)}`
      t.strictSame(problemsOf({ ...base, [name]: value }), [expected], `${name} ${value}`)
    }
  }
  for (const [env, ...expected] of conflicts) {
    t.strictSame(problemsOf({ ...base, ...env }), expected, JSON.stringify(env))
  }
})

t.test('tracing is on if an endpoint is set and the SDK is not disabled', async t => {
  const http = 'http/protobuf'
  const rows: ReadonlyArray<readonly [Environment, boolean]> = [
    [collector, true],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://collector/v1/traces' }, true],
    [
      {
        ...collector,
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: http,
        OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc'
      },
      true
    ],
    ...['0', '1', '0.05', '.5', '1.0'].map(OTEL_TRACES_SAMPLER_ARG => [
      { ...collector, OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG },
      true
    ] as const),
    [{ ...collector, OTEL_TRACES_SAMPLER: 'nonsense', OTEL_SDK_DISABLED: 'TRUE' }, false],
    [{ ...collector, OTEL_TRACES_EXPORTER: 'none' }, false]
  ]
  for (const [env, tracing] of rows) {
    t.equal(readConfig({ ...base, ...env }).tracing, tracing, JSON.stringify(env))
  }
})

t.test('the printed configuration contains no secret', async t => {
  const shown = printableConfig(readConfig({ ...base, JWT_AUD: 'a,b' }).config)
  t.strictSame(
    configItems.filter(([, { secret }]) => secret === true).map(([name]) => name),
    ['DATABASE_URL', 'DATABASE_REPLICA_URL', 'JWT_SECRET', 'JWT_PUBLIC_KEY', 'JWT_JWKS_URL',
      'JWT_JWKS']
  )
  t.match(shown, {
    DATABASE_URL: { user: 'app', hosts: [{ host: 'db.internal', port: 6432 }], database: 'shop' },
    JWT_SECRET: '[redacted]',
    JWT_AUD: ['a', 'b'],
    ANON_ROLE: null,
    POOL_SIZE: 10
  })
  t.notMatch(JSON.stringify(shown), /hunter2|application_name/)
  const anonymous = readConfig({
    ANON_ROLE: 'anon',
    DATABASE_URL: `postgres:///shop?host=/run/pg&user=app&password=${CANARY}`
  })
  const remote = readConfig({
    ...base,
    JWT_SECRET: '',
    JWT_JWKS_URL: `https://id.example:8443/realms/shop/keys?key=${CANARY}`
  })
  t.match(printableConfig(remote.config), {
    JWT_JWKS_URL: 'https://id.example:8443/realms/shop/keys',
    JWT_PUBLIC_KEY: null
  })
  t.notMatch(JSON.stringify(printableConfig(remote.config)), /hunter2/)
  const replicated = readConfig({
    ...base,
    DATABASE_REPLICA_URL: `postgres://app:${CANARY}@standby:6432/shop?application_name=x`
  })
  t.match(replicated.replica, { hosts: [{ host: 'standby' }], user: 'app', database: 'shop' })
  t.strictSame(printableConfig(replicated.config)['DATABASE_REPLICA_URL'], {
    user: 'app',
    hosts: [{ host: 'standby', port: 6432 }],
    database: 'shop'
  })
  t.match(printableConfig(anonymous.config), {
    JWT_SECRET: null,
    JWT_JWKS_URL: null,
    JWT_ALGORITHMS: [],
    ANON_ROLE: 'anon',
    DATABASE_URL: { hosts: [{ path: '/run/pg/.s.PGSQL.5432' }] }
  })
})
