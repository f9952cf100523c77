/**
 * The process: reads the environment, starts the service, ends with it. Nothing else touches `process` (dev.ts apart).
 */
import closeWithGrace from 'close-with-grace'
import { pino } from 'pino'
import { readConfig } from './config.ts'
import { startService } from './service.ts'

function readEnvironment (): ReturnType<typeof readConfig> {
  try {
    return readConfig(process.env)
  } catch (error) {
    const problems = (error as Error).message.split('\n')
    process.stderr.write(problems.map(problem => `oneflight: ${problem}\n`).join(''))
    process.exit(1)
  }
}

const { config, database } = readEnvironment()
// postgres.js reads it by itself; DATABASE_URL alone counts, and its target_session_attrs is looked after by the lanes.
delete process.env['PGTARGETSESSIONATTRS']
const logger = pino({ level: config.LOG_LEVEL })

try {
  const service = await startService({ config, database, logger })
  // A second signal, or SHUTDOWN_TIMEOUT_MS, ends the process at once with exit code 1.
  closeWithGrace({ delay: config.SHUTDOWN_TIMEOUT_MS, logger }, async ({ signal, err }) => {
    // The stack alone: an error of the database carries details, statements and parameters.
    if (err !== undefined) logger.fatal({ reason: err.stack }, 'the process is in an unknown state and ends')
    else logger.info({ signal }, 'stopping')
    await service.stop()
  })
} catch (error) {
  logger.fatal({ reason: (error as Error).message }, 'the service cannot start')
  process.exit(1)
}
