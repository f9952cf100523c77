/**
 * What a command has of the process it runs in. Only the entry, src/cli.ts, touches the process
 * itself.
 */
import type { Readable, Writable } from 'node:stream'

export interface CliContext {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: Readable
  /** `isTTY` and `columns` (its width) where it is a terminal. */
  readonly stdout: Writable & { readonly isTTY?: boolean, readonly columns?: number }
  readonly stderr: Writable
}
