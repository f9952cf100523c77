/**
 * The part of a database URL after the "?": which parameters there are, and what those about TLS
 * mean together. Refuses unknown ones: a parameter that is silently ignored may be the one that was
 * to protect the connection. No error holds a value.
 */
import type { DatabaseTls } from '../../schemas/database.ts'

/**
 * Parameters with a closed set of values. GSSAPI and channel binding do not exist here, so they
 * cannot be required.
 */
const WORDS = {
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

/** Parameters as given; every one is there at most once and never empty. */
export type Parameters =
  & { readonly [name in keyof typeof WORDS]?: typeof WORDS[name][number] }
  & { readonly [name in typeof TEXTS[number]]?: string }

/**
 * Reads `name=value&name=value`. Throws an Error for what is unknown, empty, given twice or not one
 * of its words.
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
    checkWord(name, value)
    given.set(name, value)
  }
  return Object.fromEntries(given)
}

/**
 * Undoes percent encoding. Throws an Error that names `part` when a sequence is bad, no UTF-8 or a
 * NUL.
 */
export function decode (text: string, part: string): string {
  try {
    const decoded = decodeURIComponent(text)
    if (!decoded.includes('\0')) return decoded
  } catch {
    // The error of the platform holds the text, which may be a secret: ours below does not.
  }
  throw new Error(`has a bad percent sequence in its ${part}`)
}

function checkName (name: string): void {
  if (Object.hasOwn(WORDS, name) || (TEXTS as readonly string[]).includes(name)) return
  // Behind an "&" that was not encoded a piece of a password can stand here: only what looks like a
  // name is shown.
  throw new Error(
    /^[a-z_]+$/.test(name) ? `has the unknown parameter ${name}` : 'has an unknown parameter'
  )
}

function checkWord (name: string, value: string): void {
  if (!Object.hasOwn(WORDS, name)) return
  const words: readonly string[] = WORDS[name as keyof typeof WORDS]
  if (!words.includes(value)) throw new Error(`${name} must be ${words.join(', ')}`)
}

/**
 * What the TLS parameters mean together, as in libpq: `ssl=true` is `sslmode=require`, `require`
 * with a root certificate is `verify-ca`, `sslrootcert=system` is `verify-full`. `verify-full`
 * without a root certificate trusts the system's. Throws an Error for what could only be a mistake,
 * e.g. a root certificate that would never be looked at.
 */
export function readTls (given: Parameters): DatabaseTls {
  const { sslrootcert, sslcert, sslkey, sslnegotiation: negotiation = 'postgres' } = given
  const system = sslrootcert === 'system'
  const mode = given.sslmode ??
    (given.ssl === undefined ? system ? 'verify-full' : undefined : 'require')
  if (mode === undefined && (sslrootcert ?? sslcert) !== undefined) {
    throw new Error('has certificates but no sslmode: write sslmode=verify-full')
  }
  if (system && mode !== 'verify-full') {
    throw new Error('sslrootcert=system needs sslmode=verify-full')
  }
  if (mode === 'verify-ca' && sslrootcert === undefined) {
    throw new Error('sslmode=verify-ca needs sslrootcert')
  }
  if ((sslcert === undefined) !== (sslkey === undefined)) {
    throw new Error('sslcert and sslkey belong together')
  }
  if (negotiation === 'direct' && !isStrong(mode)) {
    throw new Error('sslnegotiation=direct needs sslmode=require or stronger')
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
