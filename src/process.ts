/**
 * The process: reads the environment, starts the service or its part of it, ends with it. Nothing
 * else touches `process` (main.ts, dev.ts and migrate.ts apart).
 */
import cluster from 'node:cluster'
import closeWithGrace from 'close-with-grace'
import { killWorkers } from './cluster/spawned-worker.ts'
import { onOrphaned, startWorker } from './cluster/worker.ts'
import { startPrimary } from './cluster/primary.ts'
import { readConfig } from './config/config.ts'
import { openLogDestination } from './server/log-destination.ts'
import { createLogger, loadPretty } from './server/logger.ts'
import { startService } from './server/service.ts'

/**
 * What this process does: all of it, or with `WORKERS` from 2 on the first process and each of the
 * others their part.
 */
const starts = { alone: startService, primary: startPrimary, worker: startWorker }

/** Here, for whatever is awaited after the start of `run` is too late for an early signal. */
const pretty = await loadPretty(process.stdout)

/** What a terminal or a supervisor sends to a whole group of processes. */
const GROUP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const

/**
 * Starts the service; it ends by a signal. Ends the process when there is something wrong with the
 * environment, or when it cannot start.
 */
export async function run (): Promise<void> {
  const settings = readEnvironment()
  const { config } = settings
  // postgres.js reads it by itself; DATABASE_URL alone counts, and its target_session_attrs is
  // looked after by the connections.
  delete process.env['PGTARGETSESSIONATTRS']
  const part = config.WORKERS === 1 ? 'alone' : cluster.isPrimary ? 'primary' : 'worker'
  const output = openLogDestination(
    1,
    lines => logger.warn({ lines }, 'lines of the log are lost, there was no room for them')
  )
  process.once('exit', () => output.finish(process.kill.bind(process, process.pid, 'SIGKILL')))
  const common = createLogger(config.LOG_LEVEL, output, pretty)
  const logger = part === 'worker' ? common.child({ worker: cluster.worker?.id }) : common

  // The first of several processes answers no requests.
  const telemetry = settings.tracing && part !== 'primary'
    ? import('./server/open-telemetry.ts').then(({ startOpenTelemetry }) =>
      startOpenTelemetry(logger)
    )
    : undefined
  const starting =
    (async () =>
      starts[part]({ ...settings, logger, tracerProvider: (await telemetry)?.tracerProvider }))()
  let stopping = false
  // A second signal or error, or SHUTDOWN_TIMEOUT_MS, ends the process at once with exit code 1.
  const grace = closeWithGrace({
    delay: config.SHUTDOWN_TIMEOUT_MS,
    // It would log whole errors.
    logger: false,
    skip: part === 'worker' ? [...GROUP_SIGNALS] : [],
    onSecondSignal: signal => logger.fatal({ signal }, 'a second signal: the process ends at once'),
    onSecondError: error =>
      logger.fatal({ reason: origin(error) }, 'a second error: the process ends at once'),
    onTimeout: delay => logger.fatal({ delay }, 'not stopped in time: the process ends at once')
  }, async ({ signal, err, manual }) => {
    stopping = true
    const unknown = signal === undefined && manual !== true
    if (unknown) {
      logger.fatal({ reason: origin(err) }, 'the process is in an unknown state and ends')
    } else logger.info({ signal }, 'stopping')
    try {
      // A signal may come before everything has started. A process in an unknown state takes nobody
      // any more.
      await (await starting).stop(unknown ? 'now' : undefined)
      await (await telemetry)?.stop()
    } catch (error) {
      logger.fatal({ reason: origin(error) }, 'the service cannot stop')
      throw error
    } finally {
      await output.flush()
    }
  })
  // However this process ends, no worker outlives it. What SIGKILL does not let it do, they do
  // themselves: they stop when it is gone.
  if (part === 'primary') process.once('exit', killWorkers)
  if (part === 'worker') {
    // A worker may get a signal twice, from its first process and with the group, and that must not
    // force its end: the first process does when it has to.
    const stop = (): void => {
      if (!stopping) grace.close()
    }
    for (const signal of GROUP_SIGNALS) process.on(signal, stop)
    onOrphaned(stop)
  }

  try {
    await starting
  } catch (error) {
    logger.fatal({ reason: (error as Error).message }, 'the service cannot start')
    await output.flush()
    process.exit(1)
  }
}

function readEnvironment (): ReturnType<typeof readConfig> {
  try {
    return readConfig(process.env)
  } catch (error) {
    const problems = (error as Error).message.split('\n')
    process.stderr.write(problems.map(problem => `oneflight: ${problem}\n`).join(''))
    process.exit(1)
  }
}

/** Where an error comes from, without its message: that of the database may hold data. */
function origin (error: unknown): string {
  if (!(error instanceof Error)) return `a thrown ${typeof error}`
  return [error.name, ...String(error.stack).split('\n').filter(line => line.startsWith('    at '))]
    .join('\n')
}
