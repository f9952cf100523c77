/**
 * The environment variables of the service with their meaning, default and limits. Used by the
 * checks at startup (src/config/config.ts), by `GET /config` and for the table of
 * docs/reference/configuration.md.
 */
import { Type, type Static, type StringOptions } from '@sinclair/typebox'
import { engineNames } from './database.ts'
import { ttlPattern } from './http.ts'
import { oneOf } from './one-of.ts'
import { Algorithm } from './token.ts'

/** Properties of a variable. `GET /config` shows `secret` ones only as "[redacted]". */
export interface ConfigItem {
  readonly type?: string
  readonly anyOf?: ReadonlyArray<{ readonly const: string }>
  /** Allowed elements of a list; any text when undefined. */
  readonly items?: {
    readonly anyOf?: ReadonlyArray<{ readonly const: string }>
    readonly pattern?: string
    readonly patternText?: string
  }
  readonly description?: string
  readonly default?: unknown
  /** Description of a default that depends on another variable. */
  readonly defaultText?: string
  readonly unit?: string
  readonly minimum?: number
  readonly maximum?: number
  /** Limits of the value's length in UTF-8 bytes. */
  readonly minBytes?: number
  readonly maxBytes?: number
  readonly pattern?: string
  readonly patternText?: string
  readonly secret?: boolean
}

const HOUR_MS = 3_600_000
const secret = true
const port = { minimum: 0, maximum: 65_535 }
const claimPath = {
  pattern: '^[^.]+(\\.[^.]+)*$',
  patternText: 'a dotted path such as app_metadata.role'
}
const claimPaths = (example: string) =>
  Type.String({ ...claimPath, patternText: `claims or dotted paths such as ${example}` })
const onOff = (value: 'on' | 'off', description: string) =>
  oneOf(['on', 'off'], { description, default: value })
const duration = (value: number, description: string, minimum = 1) =>
  Type.Integer({ description, default: value, unit: 'ms', minimum, maximum: HOUR_MS })
const optionalText = (options: StringOptions) => Type.Optional(Type.String(options))

export const ConfigSchema = Type.Object({
  DATABASE_URL: Type.String({
    description: "Database URL in libpq's format: " +
      '`postgres://user:password@host:port/database`. Supports several hosts, ' +
      'socket directories, `sslmode` and `target_session_attrs`',
    defaultText: '**required**',
    secret
  }),
  DATABASE_REPLICA_URL: optionalText({
    description:
      'URL of a standby for batches with `access=read-only`: the same database and ' +
      'user. It has its own pool of `POOL_SIZE` connections',
    secret
  }),
  DATABASE_ENGINE: Type.Optional(
    oneOf(engineNames, {
      description: 'Serve the database as this engine, even if the service recognizes another ' +
        'one. Promises of the service may then not hold: policies can fail open. If unset, the ' +
        'engine is recognized, and one that is not known to work correctly is refused'
    })
  ),
  ANON_ROLE: optionalText({
    description: 'Database role of requests without a token. If unset, a token is required',
    minBytes: 1,
    maxBytes: 63
  }),
  DB_SCHEMAS: Type.Array(Type.String(), {
    description:
      'Schemas that operations may use, comma-separated. Tables without a schema ' +
      'are in the first one',
    default: ['public']
  }),
  DB_EXTRA_SEARCH_PATH: Type.Array(Type.String(), {
    description: 'Further schemas of `search_path` after `DB_SCHEMAS`, comma-separated, for ' +
      'types, operators and functions of extensions. Operations cannot use them. A ' +
      'schema in which the role of a token can create objects is left out',
    default: ['public']
  }),

  BATCHES_DIR: optionalText({
    description: 'Folder of the named batches: one file `<name>.json` for each. If unset, ' +
      'no batch has a name'
  }),
  ADHOC_BATCHES: Type.Array(Type.String(), {
    description: 'Who may send batches without a name to `POST /`: `on` (all), `off` (no one) ' +
      'or roles, comma-separated',
    default: ['on']
  }),

  HTTP_HOST: Type.String({
    description: 'Address of the main server',
    default: '127.0.0.1'
  }),
  HTTP_PORT: Type.Integer({
    description: 'Port of the main server. 0 selects a free port',
    default: 4000,
    ...port
  }),
  ADMIN_HTTP_HOST: Type.String({
    description: 'Address of the admin server. Must not be public',
    default: '127.0.0.1'
  }),
  ADMIN_HTTP_PORT: Type.Integer({
    description:
      'Port of the admin server (metrics, liveness, readiness, configuration). 0 ' +
      'selects a free port',
    default: 9568,
    ...port
  }),

  CORS_ORIGINS: Type.Optional(
    Type.Array(Type.String(), {
      description: 'Origins that may send batches from a browser, comma-separated: ' +
      '`https://app.example.com`, or `*` for all. If unset, none'
    })
  ),

  JWT_SECRET: optionalText({
    description: 'Shared secret of HS256, HS384 and HS512 tokens',
    minBytes: 32,
    secret
  }),
  JWT_PUBLIC_KEY: optionalText({
    description:
      'Public key or certificate of the token issuer: one PEM block, whose line ' +
      'ends may be spaces or `\\n`',
    secret
  }),
  JWT_JWKS_URL: optionalText({
    description:
      "URL of the token issuer's JSON Web Key Set (RFC 7517), fetched at start and " +
      'every 10 minutes',
    secret
  }),
  JWT_JWKS: optionalText({
    description: 'JSON Web Key Set of the token issuer, as JSON text',
    secret
  }),
  JWT_ALGORITHMS: Type.Array(Algorithm, {
    description:
      'Allowed signature algorithms, comma-separated. The key must support each of ' +
      'them',
    defaultText: 'all that fit the key'
  }),
  JWT_ROLE_CLAIM: Type.String({
    description: 'Claim with the database role: its name, which may be a URL, or a path',
    default: 'role',
    ...claimPath
  }),
  JWT_REQUIRE_EXP: Type.Boolean({
    description: 'Reject tokens without `exp`',
    default: true
  }),
  JWT_AUD: Type.Optional(Type.Array(Type.String(), {
    description: 'Accepted audiences, comma-separated. Makes `aud` required'
  })),
  JWT_ISS: optionalText({ description: 'Accepted issuer. Makes `iss` required' }),

  MAX_BODY_BYTES: Type.Integer({
    description: 'Maximum size of a request body',
    default: 1_048_576,
    unit: 'bytes',
    minimum: 2,
    maximum: 268_435_456
  }),
  MAX_OPS: Type.Integer({
    description: 'Maximum operations per batch',
    default: 100,
    minimum: 1,
    maximum: 1000
  }),
  MAX_ROWS: Type.Integer({
    description: 'Maximum rows per operation, sent or returned',
    default: 10_000,
    minimum: 1,
    maximum: 1_000_000
  }),
  MAX_STREAM_ROWS: Type.Integer({
    description:
      'Maximum rows of a select that a client reads as a [stream](http-api.md#streams). At ' +
      'most half of the `POOL_SIZE` connections stream at a time. 0: no streams',
    default: 0,
    minimum: 0,
    maximum: 1_000_000_000
  }),
  MAX_UPLOAD_ROWS: Type.Integer({
    description:
      'Maximum rows of an [upload](named-batches.md#uploads) to a named batch, instead of ' +
      '`MAX_ROWS`. Its body may have 32 × `MAX_BODY_BYTES`, at most `MAX_BYTES_IN_FLIGHT`. 0: ' +
      'there are no uploads',
    default: 0,
    minimum: 0,
    maximum: 1_000_000
  }),
  MAX_RESPONSE_BYTES: Type.Integer({
    description: 'Maximum size of the rows of a response, together. A batch with more is rolled ' +
      'back (`response_too_large`)',
    default: 67_108_864,
    unit: 'bytes',
    minimum: 65_536,
    maximum: 68_719_476_736
  }),

  WORKERS: Type.Integer({
    description: 'Number of processes that share the main port. `MAX_BYTES_IN_FLIGHT`, ' +
      '`POOL_SIZE` and `QUEUE_SIZE` apply to each one. The database gets up to `WORKERS` × ' +
      '(`POOL_SIZE` + 4) connections',
    default: 1,
    minimum: 1,
    maximum: 64
  }),
  MAX_BYTES_IN_FLIGHT: Type.Integer({
    description:
      'Maximum bytes in memory of requests being received and responses not yet ' +
      'read by clients. Further requests get 503 `overloaded`',
    default: 268_435_456,
    unit: 'bytes',
    minimum: 2,
    maximum: 68_719_476_736
  }),

  POOL_SIZE: Type.Integer({
    description: 'Maximum database connections in the pool',
    default: 10,
    minimum: 1,
    maximum: 1000
  }),
  QUEUE_SIZE: Type.Integer({
    description:
      'Maximum batches that wait for a connection. Further batches get 503 ' +
      '`overloaded`',
    defaultText: '4 × `POOL_SIZE`',
    minimum: 0,
    maximum: 100_000
  }),
  PRINCIPAL_CONCURRENCY: Type.Optional(Type.Integer({
    description:
      'Maximum batches of one principal that run or wait at the same time. Further ones get 429 ' +
      '`principal_busy`. A principal is the role, issuer and subject of a token; requests ' +
      'without a token or a subject share one for each role. It applies to each of the ' +
      '`WORKERS`. If unset, there is no limit',
    minimum: 1,
    maximum: 100_000
  })),
  QUEUE_TIMEOUT_MS: duration(1000, 'Maximum wait for a connection, then 503 `overloaded`'),
  STATEMENT_TIMEOUT_MS: duration(15_000, 'Maximum duration of a statement'),
  LOCK_TIMEOUT_MS: duration(5000, 'Maximum wait for a lock'),
  REQUEST_TIMEOUT_MS: duration(
    30_000,
    'Maximum time for a request to arrive, and from the end of its headers to its response'
  ),
  SHUTDOWN_DELAY_MS: duration(
    1000,
    'Time after SIGTERM in which new connections are still accepted, while ' +
      '`/ready` and `/health` return 503',
    0
  ),
  SHUTDOWN_TIMEOUT_MS: duration(
    25_000,
    'Maximum time from SIGTERM to exit, including `SHUTDOWN_DELAY_MS`. Requests ' +
      'that are still running are aborted'
  ),

  PREPARED_STATEMENTS: onOff('on', 'Use prepared statements. Set `off` for PgBouncer in ' +
      'transaction mode'),
  IDEMPOTENCY_TTL: Type.String({
    description:
      'Time to keep an `Idempotency-Key` and its response, with a unit: `30m`, ' +
      '`24h`, `7d`',
    default: '24h',
    pattern: ttlPattern,
    patternText: '1 to 999999 s, m, h or d'
  }),
  IDEMPOTENCY_SCOPE: Type.Optional(
    Type.Array(claimPaths('app_metadata.tenant'), {
      description: 'Claims that own an `Idempotency-Key` together with role, issuer and subject, ' +
        'comma-separated: tenants with one subject then have separate keys. After a change, ' +
        'earlier keys are not found'
    })
  ),
  IDEMPOTENCY_IGNORED_CLAIMS: Type.Optional(
    Type.Array(claimPaths('session_id'), {
      description: 'Claims that change with every token, comma-separated, in addition to ' +
        '[those that are known](../operations/reliability.md#who-owns-a-key). A repeated ' +
        '`Idempotency-Key` needs the same values of all other claims'
    })
  ),

  LOG_LEVEL: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
    description: 'Minimum log level',
    default: 'info'
  }),
  COMPRESSION: onOff('off', 'Compress responses of 10 KiB or more for clients that accept Brotli ' +
      'or gzip. It costs CPU time, and gains time only on slow links'),
  EXPLAIN: onOff('off', 'Allow clients to request query plans (`Prefer: explain`). Plans reveal ' +
      'conditions of policies, names of indexes and estimated row counts'),
  API_TABLES: onOff('off', 'Serve `GET /tables`: the tables and columns that the role of the ' +
      'token may use'),
  MCP: onOff('off', 'Serve `POST /mcp`: the named batches that the role of the token may run, as ' +
      'tools for agents (Model Context Protocol)'),
  SQL_COMMENTS: onOff('off', 'Append the request id and trace to every statement of a batch, as ' +
    "an sqlcommenter comment for PostgreSQL's log. Disables prepared statements, which costs " +
      'CPU time in PostgreSQL'),
  ERROR_VERBOSITY: oneOf(['terse', 'verbose'], {
    description:
      '`verbose` sends `detail` and `hint` of PostgreSQL errors, values in messages, and why a ' +
      'token or a privilege was refused. They may contain data that the role cannot read',
    default: 'terse'
  })
})

/**
 * Maximum bytes of an upload: 32 MiB by default, when a line has at most 1 MiB, and no more than
 * there is room for.
 */
export function maxUploadBytes (
  { MAX_BODY_BYTES, MAX_BYTES_IN_FLIGHT }: Pick<Config, 'MAX_BODY_BYTES' | 'MAX_BYTES_IN_FLIGHT'>
): number {
  return Math.min(32 * MAX_BODY_BYTES, MAX_BYTES_IN_FLIGHT)
}

export type Config = Readonly<Static<typeof ConfigSchema>>

/** The options of a plugin that needs only the configuration. */
export interface ConfigOptions {
  readonly config: Config
}

/** All variables, in the order of the documentation. */
export const configItems: ReadonlyArray<readonly [keyof Config, ConfigItem]> = Object.entries(
  ConfigSchema.properties
) as unknown as ReadonlyArray<[keyof Config, ConfigItem]>

/**
 * Describes the allowed values: `from 1 to 1000 ms`, `true or false`, `one of terse, verbose`. ''
 * when there are no limits.
 */
export function describeLimits (item: ConfigItem): string {
  if (item.anyOf !== undefined) return `one of ${item.anyOf.map(word => word.const).join(', ')}`
  if (item.items?.anyOf !== undefined) {
    return `any of ${item.items.anyOf.map(word => word.const).join(', ')}`
  }
  if (item.items?.patternText !== undefined) return item.items.patternText
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
