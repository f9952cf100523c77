/**
 * Reads the configuration from environment variables, and reports every problem at once. Problems
 * never contain a secret.
 */
import { configItems, type Config } from '../../schemas/config.ts'
import type { DatabaseTarget, EngineName } from '../../schemas/database.ts'
import { isReservedRole } from '../../schemas/token.ts'
import type { TokenKeys } from '../auth/jwks.ts'
import { parseDatabaseUrl } from './database-url.ts'
import { findUnreadable } from './files.ts'
import { keyVariables, readKeys } from './jwt-keys.ts'
import { describeProblem, findNearMisses, readTracing, readValue } from './variables.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** Invalid configuration. `message` contains all problems, one per line, without secrets. */
export interface ConfigError extends Error {
  readonly name: 'ConfigError'
  readonly problems: readonly string[]
}

type Draft = ReturnType<typeof readVariables>

export interface Settings {
  readonly config: Config
  readonly database: DatabaseTarget
  readonly replica: DatabaseTarget | undefined
  readonly keys: TokenKeys | undefined
  readonly tracing: boolean
}

/** What the program that calls readConfig provides itself. */
export interface ConfigOptions {
  /** `'host'`: the program has registered @fastify/jwt, so no key is required. */
  readonly keys?: 'host' | undefined
}

/** Reads the configuration. An empty variable is unset. Throws a `ConfigError`. */
export function readConfig (env: Environment, { keys: source }: ConfigOptions = {}): Settings {
  const given = setVariables(env)
  const draft = readVariables(given)
  const { values, database, replica, keys } = draft
  const { tracing, problems: tracingProblems } = readTracing(given)
  const config = accept(values, [
    // A name of one word (WORKERS) has no prefix, so every unrelated variable would resemble it.
    ...findNearMisses(
      Object.keys(given),
      configItems.map(([name]) => name).filter(name => name.includes('_'))
    ),
    ...draft.problems,
    ...checkDatabase(given),
    ...tracingProblems,
    ...findConflicts(draft),
    ...checkOrigins(values),
    ...source === 'host' ? [] : checkSources(given),
    ...checkSchemas(values),
    ...findUnreadable(values.BATCHES_DIR, database, replica)
  ])
  return { config, database: database as DatabaseTarget, replica, keys, tracing }
}

/** Limits that are checked without a database. */
const limits = ['DB_SCHEMAS', 'MAX_BODY_BYTES', 'MAX_OPS', 'MAX_ROWS'] as const
export type Limits = Pick<Config, typeof limits[number]>

/** Reads only the limits of a batch, for validation without a service. Throws a `ConfigError`. */
export function readLimits (env: Environment): Limits {
  const { values, problems } = readVariables(setVariables(env), limits)
  return accept(values, [...problems, ...checkSchemas(values)])
}

export type DatabaseSettings = Pick<Settings, 'config' | 'database'>

/**
 * Reads the settings of a check against the database. No keys are required, because the check
 * authenticates no request. Throws a `ConfigError`.
 */
export function readDatabaseSettings (env: Environment): DatabaseSettings {
  const given = setVariables(env)
  const { values, database, problems } = readVariables(given)
  const all = [...problems, ...checkDatabase(given), ...checkSchemas(values)]
  return { config: accept(values, all), database: database as DatabaseTarget }
}

/** Reads only DATABASE_ENGINE. Throws a `ConfigError`. */
export function readEngine (env: Environment): EngineName | undefined {
  const { values, problems } = readVariables(setVariables(env), ['DATABASE_ENGINE'])
  return accept(values, problems).DATABASE_ENGINE
}

const signing = [
  ...keyVariables, 'JWT_ALGORITHMS', 'JWT_ROLE_CLAIM', 'JWT_ISS', 'JWT_AUD'
] as const
export type Signing = Pick<Config, typeof signing[number]> & { readonly JWT_SECRET: string }

/** Reads what `oneflight token` needs. Throws a `ConfigError`, also when JWT_SECRET is not set. */
export function readSigning (env: Environment): Signing {
  const given = setVariables(env)
  const { values, problems } = readVariables(given, signing)
  return accept(values, [
    ...problems,
    ...given['JWT_SECRET'] === undefined ? ['JWT_SECRET: required to sign a token'] : [],
    ...given['JWT_SECRET'] !== undefined && problems.length === 0 &&
      values.JWT_ALGORITHMS?.includes('HS256') === false
      ? ['JWT_ALGORITHMS: does not contain HS256']
      : []
  ]) as Signing
}

/**
 * The response of `GET /config`, with "[redacted]" for secrets. Database URLs are reduced to user,
 * hosts, ports and database, the URL of the key set to the part before its query. Unset variables
 * are null.
 */
export function printableConfig (config: Config): Readonly<Record<string, unknown>> {
  const shown = configItems.map(([name, item]) => {
    const value = config[name] ?? null
    return [name, value !== null && item.secret === true ? '[redacted]' : value]
  })
  const place = (url: string | undefined): object | null => {
    if (url === undefined) return null
    const { user, hosts, database } = parseDatabaseUrl(url)
    return { user, hosts, database }
  }
  const keysAt = config.JWT_JWKS_URL === undefined ? null : new URL(config.JWT_JWKS_URL)
  return {
    ...Object.fromEntries(shown),
    DATABASE_URL: place(config.DATABASE_URL),
    DATABASE_REPLICA_URL: place(config.DATABASE_REPLICA_URL),
    JWT_JWKS_URL: keysAt && keysAt.origin + keysAt.pathname
  }
}

function setVariables (env: Environment): Environment {
  return Object.fromEntries(
    Object.entries(env).filter(([, text]) => text !== undefined && text !== '')
  )
}

/**
 * Returns values and problems so far. A variable with a problem has no value. `only`: the variables
 * that are read; undefined: all.
 */
function readVariables (given: Environment, only?: readonly string[]) {
  const all: Record<string, unknown> = {}
  const values = all as Partial<Config>
  const problems: string[] = []
  const items = configItems.filter(([name]) => only?.includes(name) !== false)
  for (const [name, item] of items) {
    const text = given[name]
    if (text !== undefined) {
      const value = readValue(item, text)
      if (value === undefined) problems.push(`${name}: ${describeProblem(item, text)}`)
      else all[name] = value
    } else if (item.default !== undefined) {
      all[name] = item.default
    }
  }
  // Four waiting batches per connection: what is served within QUEUE_TIMEOUT_MS when a batch takes
  // 250 ms.
  if (given['QUEUE_SIZE'] === undefined) all['QUEUE_SIZE'] = 4 * Number(values.POOL_SIZE)
  const attempt = <Result>(prefix: string, read: () => Result): Result | undefined => {
    try {
      return read()
    } catch (error) {
      problems.push(`${prefix}${(error as Error).message}`)
      return undefined
    }
  }
  const { DATABASE_ENGINE: engine } = values
  const [database, replica] = (['DATABASE_URL', 'DATABASE_REPLICA_URL'] as const).map(name => {
    const text = values[name]
    return text === undefined
      ? undefined
      : attempt(`${name}: `, () => ({ ...parseDatabaseUrl(text), engine }))
  })
  const names = items.map(([name]) => name).filter(name => given[name] !== undefined)
  const keys = attempt('', () => readKeys(values, names))
  all['JWT_ALGORITHMS'] = [...keys?.algorithms ?? []]
  return { values, database, replica, keys, problems }
}

/** Throws a `ConfigError` if there are problems. Without them, every variable has a value. */
function accept (values: Partial<Config>, problems: readonly string[]): Config {
  if (problems.length === 0) return values as Config
  const error: ConfigError =
    Object.assign(new Error(problems.join('\n')), { name: 'ConfigError' as const, problems })
  throw error
}

function checkDatabase (given: Environment): readonly string[] {
  return given['DATABASE_URL'] === undefined ? ['DATABASE_URL: required'] : []
}

/** Returns what must not be together, although each variable is valid. */
function findConflicts ({ values, database, replica }: Draft): readonly string[] {
  const {
    ANON_ROLE: role,
    ADHOC_BATCHES: adhoc = [],
    MAX_BYTES_IN_FLIGHT: allBytes = Infinity,
    MAX_BODY_BYTES: bodyBytes = 0,
    SHUTDOWN_DELAY_MS: delay = 0,
    SHUTDOWN_TIMEOUT_MS: timeout = Infinity
  } = values
  // It could be the name of a role, or allow every role or none.
  const word = adhoc.length > 1 ? adhoc.find(name => name === 'on' || name === 'off') : undefined
  const hasBoth = database !== undefined && replica !== undefined
  const rules: ReadonlyArray<readonly [isBroken: boolean, problem: string]> = [
    [shareAddress(values), 'ADMIN_HTTP_PORT: must differ from HTTP_PORT on the same address'],
    // A standby has the roles and databases of its primary. With different users, a token could
    // name the login role of one of them.
    [
      hasBoth && replica.user !== database.user,
      'DATABASE_REPLICA_URL: must have the same user as DATABASE_URL'
    ],
    [
      hasBoth && replica.database !== database.database,
      'DATABASE_REPLICA_URL: must have the same database as DATABASE_URL'
    ],
    [role !== undefined && isReservedRole(role), `ANON_ROLE: "${role}" is reserved by PostgreSQL`],
    [
      role !== undefined && role === database?.user,
      'ANON_ROLE: must differ from the login role of DATABASE_URL'
    ],
    [word !== undefined, `ADHOC_BATCHES: "${word}" cannot be in a list of roles`],
    [allBytes < bodyBytes, `MAX_BYTES_IN_FLIGHT: must be at least MAX_BODY_BYTES (${bodyBytes})`],
    [delay >= timeout, `SHUTDOWN_DELAY_MS: must be less than SHUTDOWN_TIMEOUT_MS (${timeout})`]
  ]
  return rules.flatMap(([isBroken, problem]) => isBroken ? [problem] : [])
}

const EVERY_ADDRESS: readonly unknown[] = ['0.0.0.0', '::']

function shareAddress (
  { HTTP_HOST, HTTP_PORT, ADMIN_HTTP_HOST, ADMIN_HTTP_PORT }: Partial<Config>
): boolean {
  const overlap = HTTP_HOST === ADMIN_HTTP_HOST || EVERY_ADDRESS.includes(HTTP_HOST) ||
    EVERY_ADDRESS.includes(ADMIN_HTTP_HOST)
  return overlap && HTTP_PORT === ADMIN_HTTP_PORT && Boolean(HTTP_PORT)
}

/** Origins as a browser sends them (RFC 6454 §6.2): anything else would never match. */
function checkOrigins ({ CORS_ORIGINS: origins = [] }: Partial<Config>): readonly string[] {
  if (origins.length > 1 && origins.includes('*')) {
    return ['CORS_ORIGINS: * cannot be combined with origins']
  }
  return origins.flatMap(text => {
    if (text === '*') return []
    const origin = /^https?:[^*]+$/i.test(text) && URL.canParse(text)
      ? new URL(text).origin
      : undefined
    if (origin === text) return []
    return [
      `CORS_ORIGINS: expected origins such as https://app.example.com or *, got ${
        JSON.stringify(text)
      }${origin === undefined ? '' : ` (its origin is ${origin})`}`
    ]
  })
}

function checkSources (given: Environment): readonly string[] {
  const sources = [...keyVariables, 'ANON_ROLE']
  return sources.some(name => given[name] !== undefined)
    ? []
    : [`${sources.join(', ')}: at least one must be set, or no request can be authorized`]
}

function checkSchemas (values: Partial<Config>): readonly string[] {
  return (['DB_SCHEMAS', 'DB_EXTRA_SEARCH_PATH'] as const)
    .flatMap(name => checkNames(name, values[name] ?? []))
}

function checkNames (
  name: 'DB_SCHEMAS' | 'DB_EXTRA_SEARCH_PATH',
  schemas: readonly string[]
): readonly string[] {
  return schemas.flatMap((schema, index) => {
    if (schema === 'information_schema' || schema.startsWith('pg_')) {
      return [`${name}: "${schema}" is reserved by PostgreSQL`]
    }
    // In a search_path, even when it is quoted, this is the schema named after the current role.
    if (schema === '$user') return [`${name}: "$user" is not the name of a schema`]
    // An operation writes a table as <schema>.<table>, with one dot.
    if (name === 'DB_SCHEMAS' && schema.includes('.')) {
      return [`${name}: "${schema}" contains a dot, so operations cannot name its tables`]
    }
    if (Buffer.byteLength(schema) > 63) {
      return [`${name}: name ${index + 1} is longer than 63 bytes`]
    }
    return schemas.indexOf(schema) < index ? [`${name}: "${schema}" is given twice`] : []
  })
}
