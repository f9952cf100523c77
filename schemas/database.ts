/**
 * Types of a parsed database URL. src/config/ parses it, src/postgres/connect.ts connects with it.
 */

/** Host name or address (IPv6 without brackets) and TCP port, or a Unix socket. */
export type HostAddress =
  | { readonly host: string, readonly port: number }
  | { readonly path: string }

/** TLS of a TCP connection. Unix sockets never use TLS, as in libpq. */
export interface DatabaseTls {
  /** As libpq's `sslmode`. `require` with a root certificate is already `verify-ca`. */
  readonly mode: 'disable' | 'allow' | 'prefer' | 'require' | 'verify-ca' | 'verify-full'
  /** PEM file of trusted root certificates, or `system` for the system's trust store. */
  readonly rootCertPath: string | undefined
  /** PEM files of the client's certificate and its key: both or neither. */
  readonly certPath: string | undefined
  readonly keyPath: string | undefined
  /** TLS starts after an SSLRequest, or directly (PostgreSQL 17 and later). */
  readonly negotiation: 'postgres' | 'direct'
}

export interface DatabaseTarget {
  /** At least one; tried in this order. */
  readonly hosts: readonly [HostAddress, ...HostAddress[]]
  readonly user: string
  readonly password: string | undefined
  readonly database: string
  readonly tls: DatabaseTls
  readonly targetSessionAttrs:
    | 'any'
    | 'read-write'
    | 'read-only'
    | 'primary'
    | 'standby'
    | 'prefer-standby'
  /** Maximum time in milliseconds from the first byte to a usable session. */
  readonly connectTimeoutMs: number
  readonly applicationName: string
  /** The engine, if it is not to be recognized (DATABASE_ENGINE). */
  readonly engine?: EngineName | undefined
  /** Command-line options of the session (`-c name=value`): the startup parameter `options`. */
  readonly options: string | undefined
}

/** `host:port`, `[IPv6]:port` or the path of the Unix socket, for logs. */
export function describeAddress (host: HostAddress): string {
  if ('path' in host) return host.path
  return host.host.includes(':') ? `[${host.host}]:${host.port}` : `${host.host}:${host.port}`
}

/**
 * Maximum time that a transaction waits for the other side, in milliseconds: PostgreSQL for the
 * rest of a batch, a stream for its client. A statement may run longer than either.
 */
export const idleTimeoutMs = 5000

/**
 * The engines that the service knows: the values of `DATABASE_ENGINE`. All but PostgreSQL get the
 * operations of a batch one by one; `sequential` is any that understands SQL of PostgreSQL.
 */
export const engineNames = ['postgresql', 'citus', 'sequential'] as const

export type EngineName = typeof engineNames[number]
