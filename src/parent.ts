/**
 * Handles the signals of the terminal, the supervisor or the npm that started the process.
 */
import { closeSync, openSync } from 'node:fs'

/** The npm scripts and commands that run a server until it is stopped. */
const NPM_SCRIPTS = new Set(['start', 'dev', 'oneflight', 'npx'])
const startedByNpm = NPM_SCRIPTS.has(process.env['npm_lifecycle_event'] ?? '')

/** How often the process looks whether npm still runs. */
const INTERVAL_MS = 1000
/** A signal that npm passes on arrives within this time after that of the terminal. */
const COPY_MS = 500

function hasTerminal (): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'))
    return true
  } catch {
    return false
  }
}

const startedOnTerminal = hasTerminal()

/** Tells a SIGHUP for a terminal that was closed from one that somebody sent. */
export function terminalWasClosed (): boolean {
  return startedOnTerminal && !hasTerminal()
}

/**
 * Calls `stop` with the first signal, and `force` with the second one. Ctrl-C on a terminal sends
 * SIGINT to npm, too, which passes it on: the copy does not count.
 */
export function onSignals (
  names: readonly NodeJS.Signals[],
  stop: (signal: NodeJS.Signals) => void,
  force: (signal: NodeJS.Signals) => void
): void {
  let first: { readonly signal: NodeJS.Signals, readonly at: number } | undefined
  const isCopy = (signal: NodeJS.Signals): boolean =>
    startedByNpm && signal === first?.signal && performance.now() - first.at < COPY_MS
  for (const name of names) {
    process.on(name, () => {
      if (first === undefined) {
        first = { signal: name, at: performance.now() }
        stop(name)
      } else if (!isCopy(name)) force(name)
    })
  }
}

/** Calls `stop` when the npm that started this process ends, which does not pass on SIGHUP. */
export function onNpmEnded (stop: () => void): void {
  if (!startedByNpm) return
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    stop()
  }, INTERVAL_MS).unref()
}
