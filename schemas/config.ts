/**
 * Every environment variable that the service reads, with its meaning, default and limits. The
 * start-up checks (src/config/config.ts), `GET /config` and the table of
 * docs/reference/configuration.md use this object.
 */
import { Type, type Static } from '@sinclair/typebox'
import { ttlPattern } from './idempotency.ts'
import { Algorithm } from './token.ts'

/**
 * What may be said of a variable, beside TypeBox's own words. A variable is shown by `GET /config`
 * only when it says `printable`; one that says `secret` is shown as set or not set.
 */
export interface ConfigItem {
  readonly type?: string
  readonly anyOf?: ReadonlyArray<{ readonly const: string }>
  /** What the elements of a list may be, when not just any text. */
  readonly items?: { readonly anyOf?: ReadonlyArray<{ readonly const: string }> }
  readonly description?: string
  readonly default?: unknown
  /** How the default comes about when it depends on another variable. */
  readonly defaultText?: string
  readonly unit?: string
  readonly minimum?: number
  readonly maximum?: number
  /** Limits of the value's length in UTF-8 bytes. */
  readonly minBytes?: number
  readonly maxBytes?: number
  /** A regular expression for the value, and the same in words. */
  readonly pattern?: string
  readonly patternText?: string
  readonly secret?: boolean
  readonly printable?: boolean
}

const HOUR_MS = 3_600_000
const printable = true
const secret = true
const port = { minimum: 0, maximum: 65_535, printable }
const duration = { unit: 'ms', minimum: 1, maximum: HOUR_MS, printable }

export const ConfigSchema = Type.Object({
  DATABASE_URL: Type.String({
    description: 'Where the database is: `postgres://user:password@host:port/database`, as libpq ' +
      'reads it (several hosts, socket directories, `sslmode`, `target_session_attrs`)',
    secret
  }),
  DATABASE_REPLICA_URL: Type.Optional(
    Type.String({
      description:
        'Where batches go that are `access=read-only`: a standby of the same database, ' +
        'with the same user; a pool of its own, of `POOL_SIZE` connections too',
      secret
    })
  ),
  ANON_ROLE: Type.Optional(
    Type.String({
      description: 'Database role of requests without a token; without it they are refused',
      minBytes: 1,
      maxBytes: 63,
      printable
    })
  ),
  DB_SCHEMAS: Type.Array(Type.String(), {
    description:
      'Schemas that operations may name, comma separated; the first is the one of tables ' +
      'named without a schema',
    default: ['public'],
    printable
  }),
  DB_EXTRA_SEARCH_PATH: Type.Array(Type.String(), {
    description: 'Schemas that follow `DB_SCHEMAS` on `search_path`, comma separated: for types, ' +
      'operators and functions of extensions. No operation can name them; one in which the role ' +
      'of a token can create objects is left off, with a warning',
    default: ['public'],
    printable
  }),

  HTTP_HOST: Type.String({
    description: 'Address the main server listens on',
    default: '127.0.0.1',
    printable
  }),
  HTTP_PORT: Type.Integer({
    description: 'Port of the main server; 0 takes a free one',
    default: 4000,
    ...port
  }),
  ADMIN_HTTP_HOST: Type.String({
    description: 'Address the admin server listens on; never a public one',
    default: '127.0.0.1',
    printable
  }),
  ADMIN_HTTP_PORT: Type.Integer({
    description:
      'Port of the admin server (metrics, liveness, readiness, configuration); 0 takes a free one',
    default: 9568,
    ...port
  }),

  CORS_ORIGINS: Type.Optional(
    Type.Array(Type.String(), {
      description: 'Origins of web pages that may send batches from a browser, comma separated: ' +
        '`https://app.example.com`; `*` for all; without it none may',
      printable
    })
  ),

  JWT_SECRET: Type.Optional(
    Type.String({
      description: 'Shared secret of HS256, HS384 and HS512 tokens; one of the four key variables',
      minBytes: 32,
      secret
    })
  ),
  JWT_PUBLIC_KEY: Type.Optional(
    Type.String({
      description:
        'Public key or certificate of the issuer of tokens, one PEM block; line ends may ' +
        'be spaces or `\\n`',
      secret
    })
  ),
  JWT_JWKS_URL: Type.Optional(
    Type.String({
      description:
        'Where the issuer publishes its keys (RFC 7517); fetched at start and every 10 minutes',
      secret
    })
  ),
  JWT_JWKS: Type.Optional(
    Type.String({ description: 'The same set of keys as JSON text', secret })
  ),
  JWT_ALGORITHMS: Type.Array(Algorithm, {
    description:
      'Algorithms that tokens may be signed with, comma separated; each must fit the key',
    defaultText: 'all that fit the key',
    printable
  }),
  JWT_ROLE_CLAIM: Type.String({
    description: 'Claim that names the database role',
    default: 'role',
    pattern: '^[^.]+(\\.[^.]+)*$',
    patternText: 'a dotted path such as app_metadata.role',
    printable
  }),
  JWT_REQUIRE_EXP: Type.Boolean({
    description: 'Whether tokens without `exp` are refused',
    default: true,
    printable
  }),
  JWT_LEEWAY_S: Type.Integer({
    description: 'Clock difference that is forgiven for `exp`, `nbf` and `iat`',
    default: 30,
    unit: 's',
    minimum: 0,
    maximum: 600,
    printable
  }),
  JWT_AUD: Type.Optional(
    Type.Array(Type.String(), {
      description:
        'Audiences of which a token must name one, comma separated; makes `aud` required',
      printable
    })
  ),
  JWT_ISS: Type.Optional(
    Type.String({ description: 'Issuer that a token must name; makes `iss` required', printable })
  ),

  MAX_BODY_BYTES: Type.Integer({
    description: 'Largest request body',
    default: 1_048_576,
    unit: 'bytes',
    minimum: 2,
    maximum: 268_435_456,
    printable
  }),
  MAX_OPS: Type.Integer({
    description: 'Most operations of one batch',
    default: 100,
    minimum: 1,
    maximum: 1000,
    printable
  }),
  MAX_ROWS: Type.Integer({
    description: 'Most rows of one operation, in or out',
    default: 10_000,
    minimum: 1,
    maximum: 1_000_000,
    printable
  }),
  MAX_CONDITIONS: Type.Integer({
    description: 'Most filter conditions of one operation',
    default: 1000,
    minimum: 1,
    maximum: 10_000,
    printable
  }),

  WORKERS: Type.Integer({
    description:
      'Processes that share the main port; from 2 on `MAX_BYTES_IN_FLIGHT`, `POOL_SIZE` ' +
      'and `QUEUE_SIZE` are those of each, and the database sees up to `WORKERS` × ' +
      '(`POOL_SIZE` + 4) connections',
    default: 1,
    minimum: 1,
    maximum: 64,
    printable
  }),
  MAX_BYTES_IN_FLIGHT: Type.Integer({
    description:
      'Most bytes of requests that are being read and of answers that clients have not ' +
      'taken yet, together; further requests are answered 503 `overloaded`',
    default: 268_435_456,
    unit: 'bytes',
    minimum: 2,
    maximum: 68_719_476_736,
    printable
  }),

  POOL_SIZE: Type.Integer({
    description: 'Database connections, each with at most one transaction',
    default: 10,
    minimum: 1,
    maximum: 1000,
    printable
  }),
  QUEUE_SIZE: Type.Integer({
    description:
      'Batches that may wait for a connection; further ones are answered 503 `overloaded`',
    defaultText: '4 × `POOL_SIZE`',
    minimum: 0,
    maximum: 100_000,
    printable
  }),
  QUEUE_TIMEOUT_MS: Type.Integer({
    description: 'Longest wait for a connection, then 503 `overloaded`',
    default: 1000,
    ...duration
  }),
  STATEMENT_TIMEOUT_MS: Type.Integer({
    description: 'Longest run of one statement',
    default: 15_000,
    ...duration
  }),
  LOCK_TIMEOUT_MS: Type.Integer({
    description: 'Longest wait for one lock',
    default: 5000,
    ...duration
  }),
  IDLE_TRANSACTION_TIMEOUT_MS: Type.Integer({
    description:
      'Longest time that PostgreSQL waits for the rest of a batch of which only a part has ' +
      'arrived, then it rolls back',
    default: 5000,
    ...duration
  }),
  REQUEST_TIMEOUT_MS: Type.Integer({
    description: 'Longest time from a request to its answer',
    default: 30_000,
    ...duration
  }),
  SHUTDOWN_DELAY_MS: Type.Integer({
    description:
      'How long connections are still taken after SIGTERM, while `/ready` and `/health` ' +
      'answer 503: until balancers have looked away',
    default: 1000,
    ...duration,
    minimum: 0
  }),
  SHUTDOWN_TIMEOUT_MS: Type.Integer({
    description:
      'Longest time from SIGTERM to the end, `SHUTDOWN_DELAY_MS` included; what still runs ' +
      'then is cut',
    default: 25_000,
    ...duration
  }),

  PREPARED_STATEMENTS: Type.Union([Type.Literal('on'), Type.Literal('off')], {
    description:
      'Whether statements are prepared on a connection; `off` for PgBouncer in transaction mode',
    default: 'on',
    printable
  }),
  IDEMPOTENCY_TTL: Type.String({
    description:
      'How long an `Idempotency-Key` and its answer are kept, with its unit: `30m`, `24h`, `7d`',
    default: '24h',
    pattern: ttlPattern,
    patternText: 'a number of s, m, h or d',
    printable
  }),

  LOG_LEVEL: Type.Union([
    Type.Literal('trace'),
    Type.Literal('debug'),
    Type.Literal('info'),
    Type.Literal('warn'),
    Type.Literal('error'),
    Type.Literal('fatal'),
    Type.Literal('silent')
  ], { description: 'Least severity that is logged', default: 'info', printable }),
  EXPLAIN: Type.Union([Type.Literal('on'), Type.Literal('off')], {
    description:
      'Whether clients may ask for plans (`Prefer: explain`); a plan shows the conditions ' +
      'of policies, names of indexes and estimates of rows',
    default: 'off',
    printable
  }),
  SQL_COMMENTS: Type.Union([Type.Literal('on'), Type.Literal('off')], {
    description:
      'Whether every statement of a batch ends in a comment with the request id and the ' +
      "trace (as sqlcommenter writes it), for PostgreSQL's own log; nothing is prepared " +
      'then, which costs CPU of PostgreSQL',
    default: 'off',
    printable
  }),
  ERROR_VERBOSITY: Type.Union([Type.Literal('terse'), Type.Literal('verbose')], {
    description:
      "Whether clients see `detail` and `hint` of PostgreSQL's errors, and the values in " +
      'messages about data (`verbose`); these can come from rows the role may not read',
    default: 'terse',
    printable
  })
})

/**
 * The configuration as the program holds it: text turned into values, defaults filled in, every
 * limit kept.
 */
export type Config = Readonly<Static<typeof ConfigSchema>>

/** Every variable with what is said of it, in the order of the documentation. */
export const configItems: ReadonlyArray<readonly [keyof Config, ConfigItem]> = Object.entries(
  ConfigSchema.properties
) as unknown as ReadonlyArray<[keyof Config, ConfigItem]>

/** Whether the service refuses to start without this variable. */
export function isRequired (name: keyof Config, item: ConfigItem): boolean {
  const required: readonly string[] = ConfigSchema.required as readonly string[]
  return required.includes(name) && item.default === undefined && item.defaultText === undefined
}

/**
 * The limits of a variable's value in words, `''` when there are none: `from 1 to 1000 ms`, `true
 * or false`, `terse, verbose`.
 */
export function describeLimits (item: ConfigItem): string {
  if (item.anyOf !== undefined) return `one of ${item.anyOf.map(word => word.const).join(', ')}`
  if (item.items?.anyOf !== undefined) {
    return `any of ${item.items.anyOf.map(word => word.const).join(', ')}`
  }
  if (item.type === 'boolean') return 'true or false'
  if (item.type === 'integer') {
    return `from ${item.minimum} to ${item.maximum}${
      item.unit === undefined ? '' : ` ${item.unit}`
    }`
  }
  const { minBytes = 0, maxBytes, patternText = '' } = item
  if (maxBytes !== undefined) return `${minBytes} to ${maxBytes} bytes`
  return minBytes === 0 ? patternText : `at least ${minBytes} bytes`
}
