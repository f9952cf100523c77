/**
 * What a command uses of its process. Only src/cli.ts accesses the process itself.
 */
import type { Readable, Writable } from 'node:stream'

export interface CliContext {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: Readable
  /** `isTTY` and `columns` (the width) are set on a terminal. */
  readonly stdout: Writable & { readonly isTTY?: boolean, readonly columns?: number }
  readonly stderr: Writable & { readonly isTTY?: boolean }
}
