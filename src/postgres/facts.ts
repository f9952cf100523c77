/**
 * What the service knows about the server of a connection, on which the statements of a batch
 * depend.
 */
import type { EngineName } from '../../schemas/database.ts'

/** Settings with their values. */
export type Settings = ReadonlyArray<readonly [name: string, value: string]>

/** Settings that control how values are read and written, with their value in every batch. */
export const FORMATS: Settings = [
  ['client_encoding', 'UTF8'],
  ['TimeZone', 'UTC'],
  ['DateStyle', 'ISO, YMD'],
  ['IntervalStyle', 'postgres'],
  ['bytea_output', 'hex'],
  ['extra_float_digits', '1'],
  ['array_nulls', 'on']
]

/** Settings with the same value in every batch. */
export const FIXED_SETTINGS: Settings = [['row_security', 'on'], ...FORMATS]

/**
 * The settings of `ALTER ROLE … SET` by role, as far as a transaction may set them. PostgreSQL
 * applies them only at login, not for SET ROLE.
 */
export type RoleSettings = ReadonlyMap<string, Settings>

/** Facts about the database that were read when the connection was opened. */
export interface ConnectionFacts {
  readonly roleSettings: RoleSettings
  /** Schemas after DB_SCHEMAS in search_path. Operations cannot name them. */
  readonly extraSchemas: readonly string[]
  /** Undefined behind a pooler, where the server can change with every transaction. */
  readonly server: ServerFacts | undefined
  /** The engine whose SQL the connection gets. */
  readonly engine: EngineName
}

/** The call of a function without arguments. PostgreSQL parses and plans nothing for it. */
export interface FunctionCall {
  readonly oid: number
}

/** Facts about the server, which a connection of the service alone relies on. */
export interface ServerFacts {
  /** Settings with the values to which RESET ALL returns, as far as batches set them. */
  readonly defaults: ReadonlyMap<string, string>
  /** The login role. */
  readonly login: string
  /** Whether it has tcp_user_timeout; other systems log a message when it is set. */
  readonly isLinux: boolean
  /** The value of client_connection_check_interval; PostgreSQL on Windows accepts only 0. */
  readonly connectionCheck: string
  /** When the server was started, in seconds of its clock, as text. */
  readonly started: string
  /** When the connection was opened, in seconds of the server's clock, as text. */
  readonly openedAt: string
}
