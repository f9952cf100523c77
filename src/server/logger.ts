/**
 * The logger: JSON lines, or on a terminal lines for people.
 */
import { Writable } from 'node:stream'
import { pino, type Logger } from 'pino'
import type { PinoPretty } from 'pino-pretty'
import sonicBoom from 'sonic-boom'

type Pretty = typeof PinoPretty

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
    messageFormat: (line, messageKey) => describeLine(line) ?? String(line[messageKey])
  })
  // A stream without flushSync: pino calls it at level fatal, and it would write that line before
  // one that is being written.
  return pino({ level }, stream ?? { write: line => output.write(line) })
}

function describeLine (
  { method, path, status, ms }: Readonly<Record<string, unknown>>
): string | undefined {
  return status === undefined || ms === undefined
    ? undefined
    : `${String(method)} ${String(path)} ${String(status)} in ${String(ms)} ms`
}

// The log output. A slow or blocked reader delays no batch and ends no process: lines keep their
// order, and those that do not fit into the buffer are dropped and counted. sonic-boom writes, as
// in pino; pino without this file ends or hangs the process when a disk is full.

/** Maximum UTF-8 bytes that wait for the reader or for disk space. Further lines are dropped. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024

/**
 * A write of this size to a pipe is atomic (PIPE_BUF of Linux), so that lines of several processes
 * do not mix. A longer line can be torn.
 */
const ATOMIC_BYTES = 4096

/**
 * A write without progress for this many ticks is stuck. Ticks are counted, because a clock would
 * also run while this process is paused.
 */
const STUCK_TICKS = 20
const TICK_MS = 100

export class LogDestination {
  readonly #stream: InstanceType<typeof sonicBoom.SonicBoom>
  #isWriting = false
  /** Ticks since the running write has begun, or has written a byte. */
  #ticks = 0
  #dropped = 0

  /** Opens `fd`. Once it is writable again, `onDropped` receives the number of lost lines. */
  constructor (fd: number, onDropped: (lines: number) => void) {
    this.#stream = new sonicBoom.SonicBoom({
      fd,
      maxLength: MAX_BUFFERED_BYTES,
      maxWrite: ATOMIC_BYTES
    })
    setInterval(() => {
      this.#ticks++
    }, TICK_MS).unref()
    this.#stream.on('write', () => {
      this.#ticks = 0
    })
    // The unwritten part stays first in the buffer and is tried again with the next line.
    this.#stream.on('error', () => {
      this.#isWriting = false
    })
    this.#stream.on('drop', () => {
      this.#dropped++
    })
    this.#stream.on('drain', () => {
      this.#isWriting = false
      const lines = this.#dropped
      this.#dropped = 0
      if (lines > 0) onDropped(lines)
    })
  }

  /** Takes a line with its newline. Does not wait or throw. */
  write (line: string): void {
    this.#stream.write(line)
    if (this.#isWriting) return
    this.#isWriting = true
    this.#ticks = 0
    // Flushes the first buffered line, which is another one if this line was dropped.
    this.#stream.flush()
  }

  /** Resolves when everything is written, or the writer is stuck. */
  async flush (): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#stream.flush(() => resolve())
    const timer = setInterval(() => {
      if (this.#isStuck()) resolve()
    }, TICK_MS)
    return promise.finally(() => clearInterval(timer))
  }

  /**
   * Writes the buffered lines synchronously at the exit of the process. Node waits for a stuck
   * write at exit, so `kill` is called instead to end the process.
   */
  finish (kill: () => void): void {
    if (this.#isStuck()) return kill()
    try {
      this.#stream.flushSync()
    } catch { /* The log is the only place to report it. */ }
  }

  #isStuck (): boolean {
    return this.#isWriting && this.#ticks >= STUCK_TICKS
  }
}
