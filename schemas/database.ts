/**
 * What a database URL says, as values. In charge of the shape alone: `src/config/database-url.ts`
 * reads it from text, `src/postgres/connect.ts` connects by it.
 */

/** A TCP port on a host name or address (IPv6 without brackets), or a Unix socket. */
export type HostAddress =
  | { readonly host: string, readonly port: number }
  | { readonly path: string }

/** How a TCP connection is protected. Unix sockets never are, as in libpq. */
export interface DatabaseTls {
  /**
   * As libpq's `sslmode`. `require` with a root certificate has become `verify-ca` already, as
   * libpq has it.
   */
  readonly mode: 'disable' | 'allow' | 'prefer' | 'require' | 'verify-ca' | 'verify-full'
  /**
   * File of the trusted root certificates in PEM, or `system`: the trust store of the operating
   * system.
   */
  readonly rootCertPath: string | undefined
  /** Files of the client's certificate and its key in PEM: both or none. */
  readonly certPath: string | undefined
  readonly keyPath: string | undefined
  /**
   * Whether TLS is asked for with PostgreSQL's SSLRequest or begins at once (PostgreSQL 17 and
   * later).
   */
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
  /** Longest time, in milliseconds, from the first byte to a usable session. */
  readonly connectTimeoutMs: number
  readonly applicationName: string
  /**
   * Command line options of the session (`-c name=value`), sent as the startup parameter `options`.
   */
  readonly options: string | undefined
}
