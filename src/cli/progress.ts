/**
 * Shows on a terminal that a command is waiting. Nothing is printed in the first second, or when
 * standard error is not a terminal.
 */
import type { CliContext } from './context.ts'

/** Moves to the start of the line; erases to its end. */
const [START, ERASE] = ['\r', '\u001b[K']

/** Prints `text` with the seconds so far, every second. Returns a function that erases it. */
export function showProgress (stderr: CliContext['stderr'], text: string): () => void {
  if (stderr.isTTY !== true) return () => {}
  let seconds = 0
  const timer = setInterval(() => {
    stderr.write(`${START}oneflight: ${text} (${++seconds} s)${ERASE}`)
  }, 1000)
  return () => {
    clearInterval(timer)
    if (seconds > 0) stderr.write(START + ERASE)
  }
}
