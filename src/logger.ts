/**
 * The log: JSON lines for machines, and for people at a terminal a line that can be read. In charge of the form alone; what is told is the business of those
 * who tell it.
 */
import { pino, type DestinationStream, type Logger } from 'pino'
import type { PinoPretty } from 'pino-pretty'

/** Where the log goes. */
export interface Output { readonly isTTY?: boolean | undefined }

type Pretty = typeof PinoPretty

/** The library for terminals, where the output is one. */
export async function loadPretty ({ isTTY }: Output): Promise<Pretty | undefined> {
  return isTTY === true ? (await import('pino-pretty')).default : undefined
}

/** A logger to standard output, or to `destination`; in a form for people when `pretty` is there. */
export function createLogger (level: string, pretty?: Pretty, destination: DestinationStream = pino.destination(1)): Logger {
  const stream = pretty?.({
    destination,
    singleLine: true,
    translateTime: 'SYS:HH:MM:ss.l',
    ignore: 'pid,hostname,method,path,status,ms',
    messageFormat: (line, messageKey) => describeLine(line as Line) ?? String(line[messageKey])
  })
  return pino({ level }, stream ?? destination)
}

/** Of the access line, what a person looks for first. */
interface Line { readonly method?: unknown, readonly path?: unknown, readonly status?: unknown, readonly ms?: unknown }

function describeLine ({ method, path, status, ms }: Line): string | undefined {
  return status === undefined || ms === undefined ? undefined : `${String(method)} ${String(path)} ${String(status)} in ${String(ms)} ms`
}
