/**
 * The logger: JSON lines, or on a terminal lines for people.
 */
import { Writable } from 'node:stream'
import { pino, type Logger } from 'pino'
import type { PinoPretty } from 'pino-pretty'
import type { LogDestination } from './log-destination.ts'

type Pretty = typeof PinoPretty

/** Loads pino-pretty if the output is a terminal. */
export async function loadPretty (
  { isTTY }: { readonly isTTY?: boolean | undefined }
): Promise<Pretty | undefined> {
  return isTTY === true ? (await import('pino-pretty')).default : undefined
}

/** Creates a logger that writes to `output`, formatted by `pretty` if given. */
export function createLogger (
  level: string,
  output: Pick<LogDestination, 'write'>,
  pretty?: Pretty
): Logger {
  const stream = pretty?.({
    destination: new Writable({
      write (line: Buffer, _encoding, done) {
        output.write(line.toString())
        done()
      }
    }),
    singleLine: true,
    translateTime: 'SYS:HH:MM:ss.l',
    ignore: 'pid,hostname,method,path,status,ms',
    messageFormat: (line, messageKey) => describeLine(line as Line) ?? String(line[messageKey])
  })
  // A stream without flushSync: pino calls it at level fatal, and it would write that line before
  // one that is being written.
  return pino({ level }, stream ?? { write: line => output.write(line) })
}

/** The members of an access log line that are shown as text. */
interface Line {
  readonly method?: unknown
  readonly path?: unknown
  readonly status?: unknown
  readonly ms?: unknown
}

function describeLine ({ method, path, status, ms }: Line): string | undefined {
  return status === undefined || ms === undefined
    ? undefined
    : `${String(method)} ${String(path)} ${String(status)} in ${String(ms)} ms`
}
