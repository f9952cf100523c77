/**
 * Tests the format of the log: JSON lines, or readable lines on a terminal. metrics-and-log.test.ts
 * tests the contents.
 */
import t from 'tap'
import { createLogger, loadPretty } from '../../../src/server/logger.ts'

/** Logs a request, a warning and other messages. Returns the written lines. */
async function write (isTTY: boolean | undefined): Promise<readonly string[]> {
  let text = ''
  const logger = createLogger('info', {
    write (line) {
      text += line
    }
  }, await loadPretty({ isTTY }))
  logger.child({ request_id: 'r' }).info({
    method: 'POST',
    path: '/',
    status: 409,
    ms: 2.5,
    code: 'unique_violation',
    index: 1
  }, 'request completed')
  logger.warn({ reason: 'no route' }, 'could not connect to the database')
  logger.info({ status: 1 }, 'not a request')
  logger.debug('below the log level')
  return text.trimEnd().split('\n')
}

t.test('a file or a pipe gets JSON lines', async t => {
  for (const isTTY of [undefined, false]) {
    const lines = (await write(isTTY)).map(line => JSON.parse(line) as object)
    t.match(lines, [
      { level: 30, request_id: 'r', status: 409, msg: 'request completed' },
      { level: 40, reason: 'no route' },
      { status: 1, msg: 'not a request' }
    ])
  }
})

t.test('a terminal gets readable lines that begin with time, level and message', async t => {
  const lines = await write(true)
  t.match(lines, [
    /^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: POST \/ 409 in 2\.5 ms \{"request_id":"r","code":"unique_violation","index":1\}$/,
    /^\[\d\d:\d\d:\d\d\.\d{3}\] WARN: could not connect to the database \{"reason":"no route"\}$/,
    /^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: not a request$/
  ])
  t.equal(lines.length, 3)
})
