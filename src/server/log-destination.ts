/**
 * Where the log is written. In charge of: that it holds up no batch and ends no process, whatever
 * becomes of its reader; the order of lines; that those which are lost are counted. The writing is
 * sonic-boom's, as in pino; left to pino alone, a full disc ends or hangs the process.
 */
import sonicBoom from 'sonic-boom'

/**
 * UTF-8 bytes that wait for a reader who takes nothing, or for room on a disc; what comes then is
 * lost.
 */
const MAX_WAITING_BYTES = 4 * 1024 * 1024

/**
 * Written to a pipe at once, whoever else writes to it (PIPE_BUF of Linux): the lines of several
 * processes do not mix. A longer line may be torn.
 */
const WHOLE_BYTES = 4096

/**
 * A write that is under way for so many ticks has a reader who takes nothing. Counted, for a
 * process that is itself paused shall blame nobody.
 */
const STUCK_TICKS = 20
const TICK_MS = 100

export interface LogDestination {
  /** Takes a line, with its end. Neither waits nor throws. */
  write(line: string): void
  /** Resolves when everything is written, or cannot be. */
  flush(): Promise<void>
  /**
   * For the very end of a process: writes what waits. A write that is stuck would keep the process
   * from ending, for its thread is waited for: then `force` has to end it.
   */
  finish(force: () => void): void
}

/** Opens `fd`. `onLost` hears how many lines are lost, as soon as there is room again. */
export function openLogDestination (fd: number, onLost: (lines: number) => void): LogDestination {
  const stream = new sonicBoom.SonicBoom({
    fd,
    maxLength: MAX_WAITING_BYTES,
    maxWrite: WHOLE_BYTES
  })
  let lost = 0
  /** A write is under way, and for how long without a byte. */
  let writing = false
  let ticks = 0
  setInterval(() => {
    ticks++
  }, TICK_MS).unref()
  stream.on('write', () => {
    ticks = 0
  })
  // What was not written stays the first of what waits, and is tried again with the next line.
  stream.on('error', () => {
    writing = false
  })
  stream.on('drop', () => {
    lost++
  })
  stream.on('drain', () => {
    writing = false
    if (lost === 0) return
    const lines = lost
    lost = 0
    onLost(lines)
  })
  const isStuck = (): boolean => writing && ticks >= STUCK_TICKS

  return {
    write (line) {
      stream.write(line)
      if (writing) return
      writing = true
      ticks = 0
      // The first line that waits; it is not this one when this one is lost.
      stream.flush()
    },
    async flush () {
      const { promise, resolve } = Promise.withResolvers<void>()
      stream.flush(() => resolve())
      const timer = setInterval(() => {
        if (isStuck()) resolve()
      }, TICK_MS)
      return promise.finally(() => clearInterval(timer))
    },
    finish (force) {
      if (isStuck()) return force()
      try {
        stream.flushSync()
      } catch { /* There is nobody to tell. */ }
    }
  }
}
