/**
 * Reads a database URL as libpq does:
 * `postgres://user:password@host1:1,host2:2/database?parameter=value`. Parts are percent-encoded.
 * The parameters `host`, `port`, `user`, `password` and `dbname` override the parts before them.
 * Only the URL is read: no PG* variables, password files, service files or files of the home
 * directory. Errors never contain the URL, or a part of it that may be secret. Source:
 * https://www.postgresql.org/docs/18/libpq-connect.html#LIBPQ-CONNSTRING-URIS
 */
import { isIPv6 } from 'node:net'
import type { DatabaseTarget, HostAddress } from '../../schemas/database.ts'
import { decode, readParameters, readTls } from './database-parameters.ts'

const DEFAULT_PORT = '5432'
const DEFAULT_CONNECT_TIMEOUT_S = '5'
const MAX_CONNECT_TIMEOUT_S = 600

/**
 * Defaults: host `localhost`, port 5432, database = user, `application_name=oneflight`,
 * `connect_timeout=5` (seconds), `target_session_attrs=any`, `sslmode=disable`. libpq's default
 * `sslmode=prefer` protects nothing, because an attacker can answer "no TLS", and costs a round
 * trip; an untrusted network requires `verify-full`. Throws an Error whose message is one line
 * without secrets.
 */
export function parseDatabaseUrl (text: string): DatabaseTarget {
  const parts = split(text)
  const given = readParameters(parts.query)
  const user = given.user ?? decode(parts.user, 'user')
  if (user === '') throw new Error('has no user')
  return {
    hosts: readHosts(
      given.host?.split(',') ?? parts.names.map(name => decode(name, 'host')),
      given.port?.split(',') ?? parts.ports
    ),
    user,
    password: given.password ?? (decode(parts.password, 'password') || undefined),
    database: given.dbname ?? (decode(parts.database, 'database') || user),
    tls: readTls(given),
    targetSessionAttrs: given.target_session_attrs ?? 'any',
    connectTimeoutMs: 1000 *
      readNumber(
        given.connect_timeout ?? DEFAULT_CONNECT_TIMEOUT_S,
        'connect_timeout',
        MAX_CONNECT_TIMEOUT_S
      ),
    applicationName: given.application_name ?? 'oneflight',
    options: given.options
  }
}

/**
 * Splits the URL as libpq does, without decoding. `new URL` supports neither several hosts nor
 * socket directories.
 */
function split (text: string) {
  const found = /^postgres(?:ql)?:\/\/(?:([^@/]*)@)?([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/s.exec(text)
  if (found === null) throw new Error('expected postgres://user:password@host:port/database')
  const [, login = '', authority = '', database = '', query = ''] = found
  // With an unencoded "@" or "/", the rest of a password would become a host, a database or a
  // parameter, whose names are printed.
  if (`${authority}${database}${query}`.includes('@')) {
    throw new Error(
      'has an unencoded "@" or "/"; in user and password write "@" as %40 and "/" as %2F'
    )
  }
  const colon = login.includes(':') ? login.indexOf(':') : login.length
  const hosts = authority.split(',').map(splitHost)
  return {
    user: login.slice(0, colon),
    password: login.slice(colon + 1),
    names: hosts.map(([name]) => name),
    ports: hosts.map(([, port]) => port),
    database,
    query
  }
}

/** Splits `host`, `host:port`, `[IPv6]` or `[IPv6]:port`. A missing part is `''`. */
function splitHost (text: string): readonly [name: string, port: string] {
  const found = /^(?:\[(.*)\]|([^:[\]]*))(?::(.*))?$/s.exec(text)
  if (found === null) throw new Error('has a malformed host; only IPv6 addresses have brackets')
  const [, bracketed, name = '', port = ''] = found
  return [bracketed ?? name, port]
}

/** Pairs names with ports. A single port applies to every name. The default is `localhost`. */
function readHosts (names: readonly string[], ports: readonly string[]): DatabaseTarget['hosts'] {
  if (ports.length !== 1 && ports.length !== names.length) {
    throw new Error(`has ${names.length} hosts but ${ports.length} ports`)
  }
  if (names.length > 1 && names.includes('')) throw new Error('has an empty host in its list')
  return names.map((name, index) => {
    const port = ports[ports.length === 1 ? 0 : index] || DEFAULT_PORT
    return readHost(name || 'localhost', decode(port, 'port'))
  }) as unknown as DatabaseTarget['hosts']
}

function readHost (name: string, portText: string): HostAddress {
  const port = readNumber(portText, 'port', 65_535)
  if (name.startsWith('/')) return { path: `${name}/.s.PGSQL.${port}` }
  if (!isIPv6(name) && !/^[A-Za-z0-9._-]+$/.test(name)) {
    throw new Error('has a host that is not a name, an address or a socket directory')
  }
  return { host: name, port }
}

function readNumber (text: string, name: string, maximum: number): number {
  const value = /^[0-9]{1,9}$/.test(text) ? Number(text) : 0
  if (value < 1 || value > maximum) {
    throw new Error(`${name} must be an integer from 1 to ${maximum}`)
  }
  return value
}
