/**
 * From the environment to the configuration. In charge of finding every problem at once, before
 * anything is opened; refuses to start with a half-understood environment. Reads nothing but the
 * object it is given and never shows a secret.
 */
import { isReservedRole } from '../../schemas/claims.ts'
import { configItems, isRequired, type Config } from '../../schemas/config.ts'
import type { DatabaseTarget } from '../../schemas/database.ts'
import type { TokenKeys } from '../auth/key-source.ts'
import { parseDatabaseUrl } from './database-url.ts'
import { keyVariables, readKeys } from './jwt-keys.ts'
import { findNearMisses } from './near-misses.ts'
import { readTracing } from './tracing.ts'
import { readValue } from './value.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/**
 * What a refused start throws: `message` holds all problems, one line each, and may be printed as
 * it is.
 */
export interface ConfigError extends Error {
  readonly name: 'ConfigError'
  readonly problems: readonly string[]
}

/** Values and problems found so far; the values of names with a problem are missing. */
interface Draft {
  readonly values: Partial<Config>
  readonly database: DatabaseTarget | undefined
  readonly replica: DatabaseTarget | undefined
  readonly keys: TokenKeys | undefined
  readonly problems: readonly string[]
}

/**
 * The configuration, and those of its values that need more than a type: the URLs of databases and
 * the keys of tokens (undefined: none), understood.
 */
export interface Settings {
  readonly config: Config
  readonly database: DatabaseTarget
  readonly replica: DatabaseTarget | undefined
  readonly keys: TokenKeys | undefined
  /** Whether OTEL_* variables ask for traces. */
  readonly tracing: boolean
}

/**
 * Reads the configuration. An empty variable counts as unset. Throws a `ConfigError` that lists
 * every problem.
 */
export function readConfig (env: Environment): Settings {
  const given = setVariables(env)
  const draft = readTokenKeys(readDatabases(readVariables(given)), given)
  const { tracing, problems: tracingProblems } = readTracing(given)
  const problems = [
    // A name of one word (WORKERS) has no family: every foreign variable would be near to it.
    ...findNearMisses(
      Object.keys(given),
      configItems.map(([name]) => name).filter(name => name.includes('_'))
    ),
    ...draft.problems,
    ...tracingProblems,
    ...checkServers(draft.values),
    ...checkReplica(draft),
    ...checkOrigins(draft.values),
    ...checkRoles(given, draft),
    ...checkSchemas(draft.values),
    ...checkLimits(draft.values),
    ...checkStop(draft.values)
  ]
  if (problems.length > 0 || draft.database === undefined) throw configError(problems)
  // Without a problem every required variable was read and every other one has its default.
  return {
    config: draft.values as Config,
    database: draft.database,
    replica: draft.replica,
    keys: draft.keys,
    tracing
  }
}

/** What a batch is held against before there is a database. */
const limits = ['DB_SCHEMAS', 'MAX_BODY_BYTES', 'MAX_OPS', 'MAX_ROWS', 'MAX_CONDITIONS'] as const
export type Limits = Pick<Config, typeof limits[number]>

/**
 * Reads the limits of a batch alone, for those who run none: nothing else need be set. Throws a
 * `ConfigError` that lists every problem.
 */
export function readLimits (env: Environment): Limits {
  const { values, problems } = readVariables(
    setVariables(env),
    configItems.filter(([name]) => limits.includes(name as keyof Limits))
  )
  const all = [...problems, ...checkSchemas(values)]
  if (all.length > 0) throw configError(all)
  return values as Limits
}

/**
 * What `GET /config` answers: the variables that the schema calls printable, secrets as
 * "[redacted]" when set; of the database URL only user, hosts, ports and database name, of the
 * keys' URL nothing of its query. null stands for a variable that is not set.
 */
export function printableConfig (config: Config): Readonly<Record<string, unknown>> {
  const shown = configItems
    .filter(([, item]) => item.printable === true || item.secret === true)
    .map(([name, item]) => {
      const value = config[name] ?? null
      return [name, value !== null && item.secret === true ? '[redacted]' : value]
    })
  const place = (url: string): object => {
    const { user, hosts, database } = parseDatabaseUrl(url)
    return { user, hosts, database }
  }
  const keysAt = config.JWT_JWKS_URL === undefined ? null : new URL(config.JWT_JWKS_URL)
  return {
    ...Object.fromEntries(shown),
    DATABASE_URL: place(config.DATABASE_URL),
    DATABASE_REPLICA_URL: config.DATABASE_REPLICA_URL === undefined
      ? null
      : place(config.DATABASE_REPLICA_URL),
    JWT_JWKS_URL: keysAt && keysAt.origin + keysAt.pathname
  }
}

function setVariables (env: Environment): Environment {
  return Object.fromEntries(
    Object.entries(env).filter(([, text]) => text !== undefined && text !== '')
  )
}

function readVariables (given: Environment, items = configItems): Draft {
  const values: Record<string, unknown> = {}
  const problems: string[] = []
  for (const [name, item] of items) {
    const text = given[name]
    if (text !== undefined) {
      const reading = readValue(item, text)
      if ('problem' in reading) problems.push(`${name}: ${reading.problem}`)
      else values[name] = reading.value
    } else if (item.default !== undefined) {
      values[name] = item.default
    } else if (isRequired(name, item)) {
      problems.push(`${name}: required`)
    }
  }
  // Four waiting batches to a connection: about what is served within QUEUE_TIMEOUT_MS when a batch
  // takes 250 ms.
  if (given['QUEUE_SIZE'] === undefined) values['QUEUE_SIZE'] = 4 * Number(values['POOL_SIZE'])
  return { values, problems, database: undefined, replica: undefined, keys: undefined }
}

function readDatabases (draft: Draft): Draft {
  const database = readDatabase('DATABASE_URL', draft.values)
  const replica = readDatabase('DATABASE_REPLICA_URL', draft.values)
  return {
    ...draft,
    database: database.target,
    replica: replica.target,
    problems: [...draft.problems, ...database.problems, ...replica.problems]
  }
}

function readDatabase (
  name: 'DATABASE_URL' | 'DATABASE_REPLICA_URL',
  values: Partial<Config>
): { readonly target: DatabaseTarget | undefined, readonly problems: readonly string[] } {
  const text = values[name]
  if (text === undefined) return { target: undefined, problems: [] }
  try {
    return { target: parseDatabaseUrl(text), problems: [] }
  } catch (error) {
    return { target: undefined, problems: [`${name}: ${(error as Error).message}`] }
  }
}

function readTokenKeys (draft: Draft, given: Environment): Draft {
  try {
    const keys = readKeys(draft.values, Object.keys(given))
    return {
      ...draft,
      keys,
      values: { ...draft.values, JWT_ALGORITHMS: [...keys?.algorithms ?? []] }
    }
  } catch (error) {
    return { ...draft, problems: [...draft.problems, (error as Error).message] }
  }
}

function checkLimits (
  { MAX_BODY_BYTES: body = 0, MAX_BYTES_IN_FLIGHT: all = Infinity }: Partial<Config>
): readonly string[] {
  return all < body
    ? [
      `MAX_BYTES_IN_FLIGHT: expected at least MAX_BODY_BYTES (${body}), or no body of that ` +
      'size could be taken'
      ]
    : []
}

function checkStop (
  { SHUTDOWN_DELAY_MS: delay = 0, SHUTDOWN_TIMEOUT_MS: all = Infinity }: Partial<Config>
): readonly string[] {
  return delay >= all
    ? [
      `SHUTDOWN_DELAY_MS: expected less than SHUTDOWN_TIMEOUT_MS (${all}), or no time ` +
      'would be left for what runs'
      ]
    : []
}

/**
 * A standby has the roles and databases of its primary. With another user a token could name the
 * login role of one of them.
 */
function checkReplica ({ database, replica }: Draft): readonly string[] {
  if (database === undefined || replica === undefined) return []
  return (['user', 'database'] as const).filter(part => replica[part] !== database[part]).map(
    part => `DATABASE_REPLICA_URL: expected the same ${part} as in DATABASE_URL`
  )
}

const EVERY_ADDRESS: readonly unknown[] = ['0.0.0.0', '::']

function checkServers (
  { HTTP_HOST, HTTP_PORT, ADMIN_HTTP_HOST, ADMIN_HTTP_PORT }: Partial<Config>
): readonly string[] {
  const overlap = HTTP_HOST === ADMIN_HTTP_HOST || EVERY_ADDRESS.includes(HTTP_HOST) ||
    EVERY_ADDRESS.includes(ADMIN_HTTP_HOST)
  if (!overlap || HTTP_PORT !== ADMIN_HTTP_PORT || !HTTP_PORT) return []
  return ['ADMIN_HTTP_PORT: expected another port than HTTP_PORT on the same address']
}

/** What a browser sends as `Origin` (RFC 6454 §6.2): anything else would be allowed in vain. */
function checkOrigins ({ CORS_ORIGINS: origins = [] }: Partial<Config>): readonly string[] {
  if (origins.length > 1 && origins.includes('*')) {
    return ['CORS_ORIGINS: expected * alone, or origins without it']
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

function checkRoles (
  given: Environment,
  { values: { ANON_ROLE: role }, database }: Draft
): readonly string[] {
  const sources = [...keyVariables, 'ANON_ROLE']
  if (sources.every(name => given[name] === undefined)) {
    return [`${sources.join(', ')}: at least one must be set, otherwise no request can be served`]
  }
  if (role === undefined) return []
  if (isReservedRole(role)) return [`ANON_ROLE: "${role}" is reserved by PostgreSQL`]
  if (role === database?.user) {
    return ['ANON_ROLE: expected another role than the login role of DATABASE_URL']
  }
  return []
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
      return [`${name}: "${schema}" belongs to PostgreSQL`]
    }
    // In a search_path it is the schema named like the current role, also when it is quoted.
    if (schema === '$user') return [`${name}: "$user" is not the name of one schema`]
    // A table is named <schema>.<table>, with one dot.
    if (name === 'DB_SCHEMAS' && schema.includes('.')) {
      return [`${name}: "${schema}" holds a dot, so that no operation could name its tables`]
    }
    if (Buffer.byteLength(schema) > 63) {
      return [`${name}: name ${index + 1} is longer than 63 bytes`]
    }
    return schemas.indexOf(schema) < index ? [`${name}: "${schema}" is given twice`] : []
  })
}

function configError (problems: readonly string[]): ConfigError {
  return Object.assign(new Error(problems.join('\n')), { name: 'ConfigError' as const, problems })
}
