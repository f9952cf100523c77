/**
 * The process: reads the environment, starts the service, ends with it. Nothing else touches `process` (main.ts, dev.ts and migrate.ts apart).
 */
import closeWithGrace from 'close-with-grace'
import { pino } from 'pino'
import { readConfig } from './config.ts'
import { startService } from './service.ts'

/** Starts the service; it ends by a signal. Ends the process when there is something wrong with the environment, or when it cannot start. */
export async function run (): Promise<void> {
  const settings = readEnvironment()
  const { config } = settings
  // postgres.js reads it by itself; DATABASE_URL alone counts, and its target_session_attrs is looked after by the lanes.
  delete process.env['PGTARGETSESSIONATTRS']
  const logger = pino({ level: config.LOG_LEVEL })

  const starting = startService({ ...settings, logger })
  // A second signal or error, or SHUTDOWN_TIMEOUT_MS, ends the process at once with exit code 1.
  closeWithGrace({
    delay: config.SHUTDOWN_TIMEOUT_MS,
    // It would log whole errors.
    logger: false,
    onSecondSignal: signal => logger.fatal({ signal }, 'a second signal: the process ends at once'),
    onSecondError: error => logger.fatal({ reason: origin(error) }, 'a second error: the process ends at once'),
    onTimeout: delay => logger.fatal({ delay }, 'not stopped in time: the process ends at once')
  }, async ({ signal, err }) => {
    if (signal === undefined) logger.fatal({ reason: origin(err) }, 'the process is in an unknown state and ends')
    else logger.info({ signal }, 'stopping')
    try {
      // A signal may come before everything has started.
      await (await starting).stop()
    } catch (error) {
      logger.fatal({ reason: origin(error) }, 'the service cannot stop')
      throw error
    }
  })

  try {
    await starting
  } catch (error) {
    logger.fatal({ reason: (error as Error).message }, 'the service cannot start')
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
  return [error.name, ...String(error.stack).split('\n').filter(line => line.startsWith('    at '))].join('\n')
}
