/**
 * From the environment to the configuration. In charge of finding every problem at once, before anything is opened; refuses
 * to start with a half-understood environment. Reads nothing but the object it is given and never shows a secret.
 */
import { isReservedRole } from '../schemas/claims.ts'
import { configItems, isRequired, type Config } from '../schemas/config.ts'
import type { DatabaseTarget } from '../schemas/database.ts'
import type { TokenKeys } from './auth/source.ts'
import { parseDatabaseUrl } from './config/database-url.ts'
import { keyVariables, readKeys } from './config/keys.ts'
import { findNearMisses } from './config/names.ts'
import { readValue } from './config/value.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** What a refused start throws: `message` holds all problems, one line each, and may be printed as it is. */
export interface ConfigError extends Error {
  readonly name: 'ConfigError'
  readonly problems: readonly string[]
}

/** Values and problems found so far; the values of names with a problem are missing. */
interface Draft {
  readonly values: Partial<Config>
  readonly database: DatabaseTarget | undefined
  readonly keys: TokenKeys | undefined
  readonly problems: readonly string[]
}

/** The configuration, and those of its values that need more than a type: DATABASE_URL and the keys of tokens (undefined: none), understood. */
export interface Settings {
  readonly config: Config
  readonly database: DatabaseTarget
  readonly keys: TokenKeys | undefined
}

/** Reads the configuration. An empty variable counts as unset. Throws a `ConfigError` that lists every problem. */
export function readConfig (env: Environment): Settings {
  const given = Object.fromEntries(Object.entries(env).filter(([, text]) => text !== undefined && text !== ''))
  const draft = readTokenKeys(readDatabase(readVariables(given)), given)
  const problems = [
    // A name of one word (WORKERS) has no family: every foreign variable would be near to it.
    ...findNearMisses(Object.keys(given), configItems.map(([name]) => name).filter(name => name.includes('_'))),
    ...draft.problems,
    ...checkServers(draft.values),
    ...checkOrigins(draft.values),
    ...checkRoles(given, draft),
    ...checkSchemas(draft.values),
    ...checkLimits(draft.values)
  ]
  if (problems.length > 0 || draft.database === undefined) throw configError(problems)
  // Without a problem every required variable was read and every other one has its default.
  return { config: draft.values as Config, database: draft.database, keys: draft.keys }
}

/**
 * What `GET /config` answers: the variables that the schema calls printable, secrets as "[redacted]" when set; of the database URL only
 * user, hosts, ports and database name, of the keys' URL nothing of its query. null stands for a variable that is not set.
 */
export function printableConfig (config: Config): Readonly<Record<string, unknown>> {
  const shown = configItems
    .filter(([, item]) => item.printable === true || item.secret === true)
    .map(([name, item]) => {
      const value = config[name] ?? null
      return [name, value !== null && item.secret === true ? '[redacted]' : value]
    })
  const { user, hosts, database } = parseDatabaseUrl(config.DATABASE_URL)
  const keysAt = config.JWT_JWKS_URL === undefined ? null : new URL(config.JWT_JWKS_URL)
  return {
    ...Object.fromEntries(shown),
    DATABASE_URL: { user, hosts, database },
    JWT_JWKS_URL: keysAt && keysAt.origin + keysAt.pathname
  }
}

function readVariables (given: Environment): Draft {
  const values: Record<string, unknown> = {}
  const problems: string[] = []
  for (const [name, item] of configItems) {
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
  // Four waiting batches to a connection: about what is served within QUEUE_TIMEOUT_MS when a batch takes 250 ms.
  if (given['QUEUE_SIZE'] === undefined) values['QUEUE_SIZE'] = 4 * Number(values['POOL_SIZE'])
  return { values, problems, database: undefined, keys: undefined }
}

function readDatabase (draft: Draft): Draft {
  if (draft.values.DATABASE_URL === undefined) return draft
  try {
    return { ...draft, database: parseDatabaseUrl(draft.values.DATABASE_URL) }
  } catch (error) {
    return { ...draft, problems: [...draft.problems, `DATABASE_URL: ${(error as Error).message}`] }
  }
}

function readTokenKeys (draft: Draft, given: Environment): Draft {
  try {
    const keys = readKeys(draft.values, Object.keys(given))
    return { ...draft, keys, values: { ...draft.values, JWT_ALGORITHMS: [...keys?.algorithms ?? []] } }
  } catch (error) {
    return { ...draft, problems: [...draft.problems, (error as Error).message] }
  }
}

function checkLimits ({ MAX_BODY_BYTES: body = 0, MAX_BYTES_IN_FLIGHT: all = Infinity }: Partial<Config>): readonly string[] {
  return all < body ? [`MAX_BYTES_IN_FLIGHT: expected at least MAX_BODY_BYTES (${body}), or no body of that size could be taken`] : []
}

const EVERY_ADDRESS: readonly unknown[] = ['0.0.0.0', '::']

function checkServers ({ HTTP_HOST, HTTP_PORT, ADMIN_HTTP_HOST, ADMIN_HTTP_PORT }: Partial<Config>): readonly string[] {
  const overlap = HTTP_HOST === ADMIN_HTTP_HOST || EVERY_ADDRESS.includes(HTTP_HOST) || EVERY_ADDRESS.includes(ADMIN_HTTP_HOST)
  if (!overlap || HTTP_PORT !== ADMIN_HTTP_PORT || !HTTP_PORT) return []
  return ['ADMIN_HTTP_PORT: expected another port than HTTP_PORT on the same address']
}

/** What a browser sends as `Origin` (RFC 6454 §6.2): anything else would be allowed in vain. */
function checkOrigins ({ CORS_ORIGINS: origins = [] }: Partial<Config>): readonly string[] {
  if (origins.length > 1 && origins.includes('*')) return ['CORS_ORIGINS: expected * alone, or origins without it']
  return origins.flatMap(text => {
    if (text === '*') return []
    const origin = /^https?:[^*]+$/i.test(text) && URL.canParse(text) ? new URL(text).origin : undefined
    if (origin === text) return []
    return [`CORS_ORIGINS: expected origins such as https://app.example.com or *, got ${JSON.stringify(text)}${origin === undefined ? '' : ` (its origin is ${origin})`}`]
  })
}

function checkRoles (given: Environment, { values: { ANON_ROLE: role }, database }: Draft): readonly string[] {
  const sources = [...keyVariables, 'ANON_ROLE']
  if (sources.every(name => given[name] === undefined)) {
    return [`${sources.join(', ')}: at least one must be set, otherwise no request can be served`]
  }
  if (role === undefined) return []
  if (isReservedRole(role)) return [`ANON_ROLE: "${role}" is reserved by PostgreSQL`]
  if (role === database?.user) return ['ANON_ROLE: expected another role than the login role of DATABASE_URL']
  return []
}

function checkSchemas ({ DB_SCHEMAS: schemas = [] }: Partial<Config>): readonly string[] {
  return schemas.flatMap((schema, index) => {
    if (schema === 'information_schema' || schema.startsWith('pg_')) return [`DB_SCHEMAS: "${schema}" belongs to PostgreSQL`]
    // A table is named <schema>.<table>, with one dot.
    if (schema.includes('.')) return [`DB_SCHEMAS: "${schema}" holds a dot, so that no operation could name its tables`]
    if (Buffer.byteLength(schema) > 63) return [`DB_SCHEMAS: name ${index + 1} is longer than 63 bytes`]
    return schemas.indexOf(schema) < index ? [`DB_SCHEMAS: "${schema}" is given twice`] : []
  })
}

function configError (problems: readonly string[]): ConfigError {
  return Object.assign(new Error(problems.join('\n')), { name: 'ConfigError' as const, problems })
}
