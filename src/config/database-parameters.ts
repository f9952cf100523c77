/**
 * Reads the parameters of a database URL. Unknown ones are rejected: a parameter that is silently
 * ignored might be the one that protects the connection. Errors never contain a value.
 */
import type { DatabaseTls } from '../../schemas/database.ts'

/**
 * Parameters with a fixed set of values. GSSAPI and channel binding are not supported, so they
 * cannot be required.
 */
const ENUMS = {
  sslmode: ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'],
  ssl: ['true'],
  sslnegotiation: ['postgres', 'direct'],
  target_session_attrs: ['any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'],
  gssencmode: ['disable', 'prefer'],
  channel_binding: ['disable', 'prefer']
} as const satisfies Record<string, readonly string[]>

const TEXTS = [
  'host',
  'port',
  'user',
  'password',
  'dbname',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'connect_timeout',
  'application_name',
  'options'
] as const

/** Each parameter occurs at most once and is never empty. */
export type Parameters =
  & { readonly [name in keyof typeof ENUMS]?: typeof ENUMS[name][number] }
  & { readonly [name in typeof TEXTS[number]]?: string }

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
    checkName(name)
    if (value === '') throw new Error(`${name} is empty`)
    if (given.has(name)) throw new Error(`${name} is given twice`)
    checkEnum(name, value)
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

function checkName (name: string): void {
  if (Object.hasOwn(ENUMS, name) || (TEXTS as readonly string[]).includes(name)) return
  // After an unencoded "&" this may be a part of a password: only show what looks like a name.
  throw new Error(
    /^[a-z_]+$/.test(name) ? `has the unknown parameter ${name}` : 'has an unknown parameter'
  )
}

function checkEnum (name: string, value: string): void {
  if (!Object.hasOwn(ENUMS, name)) return
  const values: readonly string[] = ENUMS[name as keyof typeof ENUMS]
  if (!values.includes(value)) throw new Error(`${name} must be one of ${values.join(', ')}`)
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
  if (negotiation === 'direct' && !isStrong(mode)) {
    throw new Error('sslnegotiation=direct requires sslmode=require or stronger')
  }
  return {
    mode: resolveMode(mode, sslrootcert),
    rootCertPath: mode === 'verify-full' ? sslrootcert ?? 'system' : sslrootcert,
    certPath: sslcert,
    keyPath: sslkey,
    negotiation
  }
}

function isStrong (mode: DatabaseTls['mode'] | undefined): boolean {
  return mode === 'require' || mode === 'verify-ca' || mode === 'verify-full'
}

function resolveMode (
  mode: DatabaseTls['mode'] = 'disable',
  rootCert: string | undefined
): DatabaseTls['mode'] {
  return mode === 'require' && rootCert !== undefined ? 'verify-ca' : mode
}
