/**
 * Reads the parameters of a database URL. Unknown ones are rejected: a parameter that is silently
 * ignored might be the one that protects the connection. Errors never contain a value.
 */
import type { DatabaseTls } from '../../schemas/database.ts'

/**
 * The parameters, with their values if these are a fixed set. GSSAPI and channel binding are not
 * supported, so they cannot be required.
 */
const PARAMETERS = {
  host: undefined,
  port: undefined,
  user: undefined,
  password: undefined,
  dbname: undefined,
  sslmode: ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'],
  ssl: ['true'],
  sslnegotiation: ['postgres', 'direct'],
  sslrootcert: undefined,
  sslcert: undefined,
  sslkey: undefined,
  target_session_attrs: ['any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'],
  gssencmode: ['disable', 'prefer'],
  channel_binding: ['disable', 'prefer'],
  connect_timeout: undefined,
  application_name: undefined,
  options: undefined
} as const satisfies Record<string, readonly string[] | undefined>

/** Each parameter occurs at most once and is never empty. */
export type Parameters = {
  readonly [name in keyof typeof PARAMETERS]?: typeof PARAMETERS[name] extends readonly string[]
    ? typeof PARAMETERS[name][number]
    : string
}

/**
 * Reads `name=value&name=value`. Throws an Error for an unknown, empty, repeated or invalid
 * parameter.
 */
export function readParameters (query: string): Parameters {
  const given = new Map<string, string>()
  for (const pair of query === '' ? [] : query.split('&')) {
    const equals = pair.indexOf('=')
    if (equals < 0) throw new Error('has a parameter without "="')
    const name = decode(pair.slice(0, equals), 'parameter')
    const value = decode(pair.slice(equals + 1), 'parameter')
    if (!isKnown(name)) throw new Error(`has ${describeUnknown(name)}`)
    if (value === '') throw new Error(`${name} is empty`)
    if (given.has(name)) throw new Error(`${name} is given twice`)
    const values: readonly string[] = PARAMETERS[name] ?? [value]
    if (!values.includes(value)) throw new Error(`${name} must be one of ${values.join(', ')}`)
    given.set(name, value)
  }
  return Object.fromEntries(given)
}

/** Decodes percent-encoded UTF-8. Throws an Error that names `part`; NUL is invalid. */
export function decode (text: string, part: string): string {
  try {
    const decoded = decodeURIComponent(text)
    if (!decoded.includes('\0')) return decoded
  } catch {
    // The platform's error contains the text, which may be a secret.
  }
  throw new Error(`has an invalid percent-encoding in its ${part}`)
}

function isKnown (name: string): name is keyof typeof PARAMETERS {
  return Object.hasOwn(PARAMETERS, name)
}

/** After an unencoded "&" it may be a part of a password: only what looks like a name is shown. */
function describeUnknown (name: string): string {
  return /^[a-z_]+$/.test(name) ? `the unknown parameter ${name}` : 'an unknown parameter'
}

/**
 * Interprets the TLS parameters as libpq does: `ssl=true` means `sslmode=require`, `require` with a
 * root certificate means `verify-ca`, `sslrootcert=system` means `verify-full`. Without a root
 * certificate, `verify-full` uses the system's trust store. Throws an Error for a combination that
 * can only be a mistake, for example a root certificate that would not be used.
 */
export function readTls (given: Parameters): DatabaseTls {
  const { sslrootcert, sslcert, sslkey, sslnegotiation: negotiation = 'postgres' } = given
  const system = sslrootcert === 'system'
  const mode = given.sslmode ??
    (given.ssl === undefined ? system ? 'verify-full' : undefined : 'require')
  if (mode === undefined && (sslrootcert ?? sslcert) !== undefined) {
    throw new Error('has certificates but no sslmode; add sslmode=verify-full')
  }
  if (system && mode !== 'verify-full') {
    throw new Error('sslrootcert=system requires sslmode=verify-full')
  }
  if (mode === 'verify-ca' && sslrootcert === undefined) {
    throw new Error('sslmode=verify-ca requires sslrootcert')
  }
  if ((sslcert === undefined) !== (sslkey === undefined)) {
    throw new Error('sslcert and sslkey must be set together')
  }
  if (negotiation === 'direct' && !['require', 'verify-ca', 'verify-full'].includes(String(mode))) {
    throw new Error('sslnegotiation=direct requires sslmode=require or stronger')
  }
  return {
    mode: mode === 'require' && sslrootcert !== undefined ? 'verify-ca' : mode ?? 'disable',
    rootCertPath: mode === 'verify-full' ? sslrootcert ?? 'system' : sslrootcert,
    certPath: sslcert,
    keyPath: sslkey,
    negotiation
  }
}
