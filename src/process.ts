/**
 * The service process: reads the environment, starts the service or its part of it, and stops it on
 * a signal. Apart from the other entry points and parent.ts, no file uses `process`.
 */
import cluster from 'node:cluster'
import { createRequire } from 'node:module'
import closeWithGrace from 'close-with-grace'
import type { Logger } from 'pino'
import { killWorkers, sendBatches } from './cluster/spawned-worker.ts'
import { onOrphaned, receiveBatches, startWorker } from './cluster/worker.ts'
import { readConfig, type Settings } from './config/config.ts'
import { openBatchSet, type BatchSet } from './named/read-files.ts'
import { onNpmEnded, onSignals, terminalWasClosed } from './parent.ts'
import { LogDestination, createLogger, loadPretty } from './server/logger.ts'
import type { Service } from './server/service.ts'

/**
 * The roles of a process: `single`, or with `WORKERS` from 2 on `primary` and `worker`. Each loads
 * only what it needs, which takes time and memory.
 */
const starts = {
  single: async () => (await import('./server/service.ts')).startService,
  primary: async () => (await import('./cluster/primary.ts')).startPrimary,
  worker: async () => startWorker
}

type Role = keyof typeof starts

const { version } = createRequire(import.meta.url)('oneflight/package.json') as {
  readonly version: string
}

/** Awaited here, because `run` must handle signals before its first await. */
const pretty = await loadPretty(process.stdout)

/** Signals that a terminal or a supervisor sends to a whole process group. */
const GROUP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const

/** Why the service stops, for the log. */
interface StopCause {
  readonly signal?: NodeJS.Signals
  readonly reason?: string
}

interface Process {
  readonly config: Settings['config']
  readonly role: Role
  readonly logger: Logger
  readonly output: LogDestination
}

/**
 * Starts the service, which a signal stops. Exits with code 1 when the environment is invalid or
 * the service cannot start.
 */
export async function run (): Promise<void> {
  const settings = orExit(() => readConfig(process.env))
  const { config } = settings
  const role = config.WORKERS === 1 ? 'single' : cluster.isPrimary ? 'primary' : 'worker'
  const own = role === 'worker' ? undefined : orExit(() => openBatchSet(config))
  // postgres.js would read it. Only DATABASE_URL counts, and the connections handle its
  // target_session_attrs.
  delete process.env['PGTARGETSESSIONATTRS']
  const { logger, output } = openLog(config.LOG_LEVEL, role)
  if (role !== 'worker') logger.info({ version, node: process.version }, 'starting')
  // The primary serves no requests and has no spans.
  const telemetry = settings.tracing && role !== 'primary'
    ? import('./server/open-telemetry.ts').then(({ startOpenTelemetry }) =>
      startOpenTelemetry(logger)
    )
    : undefined
  let service: Pick<Service, 'stop'> | undefined
  const starting = (async () => {
    const start = await starts[role]()
    service = await start({
      ...settings,
      logger,
      // A worker has those of the primary, also if the folder has become faulty meanwhile.
      batches: own ?? await receiveBatches(config),
      tracerProvider: (await telemetry)?.tracerProvider
    })
  })()
  const stop = stopOnSignals({ config, role, logger, output }, async now => {
    // A signal may arrive before everything has started. After an uncaught error it may never be.
    if (now === undefined) await starting
    await service?.stop(now)
    await (await telemetry)?.stop()
  })
  if (own !== undefined) {
    onNpmEnded(() => stop({ reason: 'npm, which started the service, has ended' }))
    process.on('SIGHUP', () => {
      if (terminalWasClosed()) stop({ signal: 'SIGHUP', reason: 'the terminal was closed' })
      else reload(config.BATCHES_DIR, own, logger)
    })
  }
  try {
    await starting
  } catch (error) {
    logger.fatal({ reason: (error as Error).message }, 'could not start the service')
    await output.flush()
    process.exit(1)
  }
}

function openLog (level: string, role: Role): Pick<Process, 'logger' | 'output'> {
  const output = new LogDestination(
    1,
    lines => logger.warn({ lines }, 'log lines dropped: the output was blocked or full')
  )
  process.once('exit', () => output.finish(process.kill.bind(process, process.pid, 'SIGKILL')))
  const common = createLogger(level, output, pretty)
  const logger = role === 'worker' ? common.child({ worker: cluster.worker?.id }) : common
  return { logger, output }
}

/**
 * Calls `stop` at the first signal or uncaught error, then exits. A second signal or error, or
 * `SHUTDOWN_TIMEOUT_MS`, ends the process at once with exit code 1. Returns a function that does
 * the same as a signal, but only once, and logs the cause.
 */
function stopOnSignals (
  { config, role, logger, output }: Process,
  stop: Service['stop']
): (cause: StopCause) => void {
  let stopping = false
  let cause: StopCause = {}
  const grace = closeWithGrace({
    delay: config.SHUTDOWN_TIMEOUT_MS,
    // It would log error objects with their messages.
    logger: false,
    skip: [...GROUP_SIGNALS],
    onSecondError: error =>
      logger.fatal({ reason: origin(error) }, 'second error: exiting immediately'),
    onTimeout: delay => logger.fatal({ delay }, 'shutdown timed out: exiting immediately')
  }, async ({ err, manual }) => {
    stopping = true
    const uncaught = manual !== true
    if (uncaught) logger.fatal({ reason: origin(err) }, 'uncaught error: stopping')
    else logger.info(cause, 'stopping')
    try {
      // After an uncaught error the state is unknown: no new connections are accepted.
      await stop(uncaught ? 'now' : undefined)
      logger.info('stopped')
    } catch (error) {
      logger.fatal({ reason: origin(error) }, 'could not stop the service cleanly')
      throw error
    } finally {
      await output.flush()
    }
  })
  const stopOnce = (why: StopCause): void => {
    if (stopping) return
    cause = why
    grace.close()
  }
  // No worker outlives the primary. If SIGKILL ends the primary, the workers stop on their own.
  if (role === 'primary') process.once('exit', killWorkers)
  if (role === 'worker') stopWorkerOnSignals(stopOnce)
  else {
    const force = (signal: NodeJS.Signals): void => {
      logger.fatal({ signal }, 'second signal received: exiting immediately')
      process.exit(1)
    }
    const stopBy = (signal: NodeJS.Signals): void => stopOnce({ signal })
    onSignals(GROUP_SIGNALS.filter(name => name !== 'SIGHUP'), stopBy, force)
  }
  return stopOnce
}

/**
 * A worker may receive a signal twice, from the primary and with the process group. The second one
 * must not force its exit: the primary does that when necessary. SIGHUP is for the primary, which
 * stops the workers or sends them the batches.
 */
function stopWorkerOnSignals (stop: (cause: StopCause) => void): void {
  for (const signal of GROUP_SIGNALS) {
    process.on(signal, signal === 'SIGHUP' ? () => {} : () => stop({ signal }))
  }
  onOrphaned(() => stop({ reason: 'the primary process has ended' }))
}

/** Reads the folder again. With an issue in any file, the current batches stay. */
function reload (folder: string | undefined, batches: BatchSet, logger: Logger): void {
  if (folder === undefined) {
    logger.warn('SIGHUP has no effect without BATCHES_DIR')
    return
  }
  const issues = batches.reload()
  if (issues.length > 0) {
    logger.error({ issues }, 'BATCHES_DIR has issues: the named batches stay as they were')
    return
  }
  sendBatches(batches.files())
  logger.info({ batches: batches.current().size }, 'read BATCHES_DIR')
}

/** Ends the process if what is read is invalid: the error has a line for each problem. */
function orExit<Result> (read: () => Result): Result {
  try {
    return read()
  } catch (error) {
    const problems = (error as Error).message.split('\n')
    process.stderr.write(problems.map(problem => `oneflight: ${problem}\n`).join(''))
    process.exit(1)
  }
}

/** Returns name and stack of an error without its message, which can contain data. */
function origin (error: unknown): string {
  if (!(error instanceof Error)) return `a thrown ${typeof error}`
  return [error.name, ...String(error.stack).split('\n').filter(line => line.startsWith('    at '))]
    .join('\n')
}
