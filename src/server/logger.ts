/**
 * The log: JSON lines for machines, and for people at a terminal a line that can be read. In charge
 * of the form alone; what is told is the business of those who tell it, and where it goes that of
 * the output.
 */
import { Writable } from 'node:stream'
import { pino, type Logger } from 'pino'
import type { PinoPretty } from 'pino-pretty'
import type { LogDestination } from './log-destination.ts'

type Pretty = typeof PinoPretty

/** The library for terminals, where standard output is one. */
export async function loadPretty (
  { isTTY }: { readonly isTTY?: boolean | undefined }
): Promise<Pretty | undefined> {
  return isTTY === true ? (await import('pino-pretty')).default : undefined
}

/** A logger that writes lines to `output`; in a form for people when `pretty` is there. */
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
  // Without a flushSync, which pino would call at level fatal, and which would write that line
  // before one that is being written.
  return pino({ level }, stream ?? { write: line => output.write(line) })
}

/** Of the access line, what a person looks for first. */
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
