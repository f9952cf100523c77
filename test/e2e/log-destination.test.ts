/**
 * Tests the destination of the log when its reader is slow or absent or the disk is full: neither a
 * batch nor the exit of the process may wait for it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, existsSync, openSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { freePort } from '../../scripts/dev/port.ts'
import { LogDestination, createLogger } from '../../src/server/logger.ts'
import { useDatabase } from '../support/database/database.ts'
import { childEnvironment } from '../support/process/process.ts'
import { findProgram, needs, runProgram } from '../support/process/programs.ts'
import { answering, ask, testEnvironment } from '../support/service.ts'
import { until } from '../support/until.ts'

const main = join(import.meta.dirname, '../../src/main.ts')
const programs = { mkfifo: findProgram('mkfifo') }
const devices = { '/dev/full': existsSync('/dev/full') ? '/dev/full' : undefined }
const never = (): void => {
  throw new Error('unexpected call: no line was dropped and no write was stuck')
}

/** Creates a pipe whose reader only reads on request. */
async function pipe (t: Test): Promise<{ readonly fd: number, read(bytes?: number): string }> {
  const path = join(t.testdir(), 'pipe')
  t.equal((await runProgram(programs.mkfifo as string, [path])).code, 0)
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const fd = openSync(path, 'w')
  t.teardown(() => closeSync(reader))
  const buffer = Buffer.alloc(2 ** 16)
  return {
    fd,
    read (bytes = buffer.length) {
      try {
        return buffer.toString('utf8', 0, readSync(reader, buffer, { length: bytes }))
      } catch {
        return ''
      }
    }
  }
}

t.test('all lines are written in order, including the last ones', async t => {
  const path = join(t.testdir(), 'log')
  const output = new LogDestination(openSync(path, 'w'), never)
  await output.flush()
  const logger = createLogger('info', output)
  const numbers = Array.from({ length: 100 }, (_, n) => n)
  for (const n of numbers) logger[n % 3 === 2 ? 'fatal' : 'info']({ n })
  await output.flush()
  const written = (): unknown[] =>
    readFileSync(path, 'utf8').trimEnd().split('\n').map(line =>
      (JSON.parse(line) as { n: number }).n
    )
  t.same(written(), numbers)
  // `finish` does not wait: the current write continues and the rest is written at once.
  for (const n of [100, 101, 102]) logger.info({ n })
  output.finish(never)
  await until(() => written().length === 103)
  t.same(written().slice(100).toSorted(), [100, 101, 102])
})

t.test(
  ...needs('a reader that does not read blocks nothing, and dropped lines are counted', programs),
  async t => {
    const { fd, read } = await pipe(t)
    let lost = 0
    const output = new LogDestination(fd, lines => {
      lost += lines
    })
    const filler = 'x'.repeat(1000)
    const total = 6000
    for (let n = 0; n < total; n++) output.write(`${n} ${filler}\n`)
    // `flush` ends also before the destination is known to be stuck.
    await output.flush()
    let forced = false
    output.finish(() => {
      forced = true
    })
    t.ok(forced)
    t.equal(lost, 0, 'dropped lines are reported when the pipe has space again')

    let log = ''
    await until(() => {
      log += read()
      return lost > 0
    })
    output.write('the next\n')
    await output.flush()
    await until(() => {
      log += read()
      return log.endsWith('the next\n')
    })
    const lines = log.trimEnd().split('\n')
    t.same(
      lines.slice(0, -1).map(line => line.split(' ')[0]),
      Array.from({ length: total - lost }, (_, n) => String(n))
    )
    const bytes = (total - lost) * filler.length
    t.ok(bytes > 4_000_000 && bytes < 4_400_000, `${bytes} bytes were kept`)
    output.finish(never)
  }
)

t.test(
  ...needs('lines of several processes do not mix with a slow reader', programs),
  async t => {
    const { fd, read } = await pipe(t)
    const script = `
    const { LogDestination } = await import(${
      JSON.stringify(join(import.meta.dirname, '../../src/server/logger.ts'))
    })
    const output = new LogDestination(1, () => {})
    for (let n = 0; n < 3000; n++) {
      const filler = 'x'.repeat(80 + n % 100)
      output.write('{"writer":' + process.argv[1] + ',"filler":"' + filler + '"}\\n')
    }`
    const writers = ['1', '2', '3'].map(writer =>
      spawn(process.execPath, [
        '--disable-warning=ExperimentalWarning',
        '--input-type=module',
        '-e',
        script,
        writer
      ], { stdio: ['ignore', fd, 'inherit'], env: childEnvironment() })
    )
    const ended = Promise.all(writers.map(writer => once(writer, 'exit'))).then(() => true)
    closeSync(fd)
    let log = ''
    // A pipe frees space by pages. Each read is smaller than a page.
    const readPart = (): boolean => {
      const part = read(3000)
      log += part
      return part === ''
    }
    while (!await Promise.race([ended, nextTurn(false)])) readPart()
    while (!readPart());
    t.equal(log.split('\n').length, 9001)
    t.strictSame(
      log.trimEnd().split('\n').filter(line =>
        !/^\{"writer":[123],"filler":"x{80,179}"\}$/.test(line)
      ),
      []
    )
  }
)

t.test(...needs('a full disk: nothing is thrown, and writing is retried', devices), async t => {
  const fd = openSync('/dev/full', 'w')
  let lost = 0
  const output = new LogDestination(fd, lines => {
    lost += lines
  })
  const line = `${'x'.repeat(1000)}\n`
  for (let n = 0; n < 5000; n++) output.write(line)
  await output.flush()
  output.write(line)
  await output.flush()
  output.finish(never)
  // The disk gets space: from now on the file descriptor refers to another file.
  closeSync(fd)
  const path = join(t.testdir(), 'log')
  const opened = [openSync(path, 'w')]
  while (opened.at(-1) !== fd) opened.push(openSync(path, 'a'))
  for (const other of opened.slice(0, -1)) closeSync(other)
  output.write(line)
  await output.flush()
  await until(() => lost > 0)
  const kept = readFileSync(path, 'utf8')
  t.ok(kept === line.repeat(5002 - lost), `${lost} of 5002 lost, whole lines kept`)
})

/** Starts the service with its log written to `stdout`. */
async function spawnService (
  t: Test,
  stdout: 'pipe' | number,
  env: Readonly<Record<string, string>> = {}
) {
  const { loginUrl } = await useDatabase(t)
  const ports = { HTTP_PORT: String(await freePort()), ADMIN_HTTP_PORT: String(await freePort()) }
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main], {
    env: childEnvironment({ DATABASE_URL: loginUrl, ...testEnvironment, ...ports, ...env }),
    stdio: ['ignore', stdout, 'inherit']
  })
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | string)
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, ended, url: `http://127.0.0.1:${ports.HTTP_PORT}` }
}

/** The same, and waits until it serves. */
async function serve (...settings: Parameters<typeof spawnService>) {
  const service = await spawnService(...settings)
  await until(() => answering(`${service.url}/health`).then(() => true, () => false))
  return service
}

t.test(
  ...needs('a service with a log on a full disk serves and stops', devices),
  async t => {
    const full = openSync('/dev/full', 'w')
    t.teardown(() => closeSync(full))
    for (const WORKERS of ['1', '2']) {
      const { child, ended, url } = await serve(t, full, { WORKERS })
      for (let n = 0; n < 10; n++) t.equal((await ask(`${url}/nothing`)).status, 404)
      child.kill('SIGTERM')
      t.equal(await ended, 0)
      const refused = await spawnService(t, full, {
        WORKERS,
        HTTP_PORT: '0',
        DATABASE_URL: 'postgres://u:p@127.0.0.1:1/d',
        ADMIN_HTTP_HOST: '203.0.113.1'
      })
      t.equal(await refused.ended, 1, 'a failed start exits with code 1')
    }
  }
)

/** Sends requests whose log lines exceed the capacity of a pipe. */
async function fillLog (t: Test, url: string, count: number): Promise<void> {
  const path = 'x'.repeat(8000)
  for (let n = 0; n < count; n++) t.equal((await ask(`${url}/${path}`)).status, 404)
}

t.test('a service whose log is read late reports the number of dropped lines', async t => {
  const { child, ended, url } = await serve(t, 'pipe')
  const count = 700
  await fillLog(t, url, count)
  let log = ''
  child.stdout?.on('data', (bytes: Buffer) => {
    log += bytes.toString()
  })
  await until(() => log.includes('log lines dropped'))
  child.kill('SIGTERM')
  t.equal(await ended, 0)
  await until(() => child.stdout?.readableEnded)
  const lines = log.trimEnd().split('\n').map(line =>
    JSON.parse(line) as { path?: string, msg: string, lines?: number }
  )
  const received = lines.filter(({ path = '' }) => path.length > 8000).length
  const { lines: lost = 0 } =
    lines.find(({ msg }) => msg.startsWith('log lines dropped')) ?? {}
  t.equal(received + lost, count)
  t.same(lines.slice(-2).map(({ msg }) => msg), ['stopping', 'stopped'])
})

t.test('a service whose log is not read stops', async t => {
  for (const WORKERS of ['1', '2']) {
    const { child, ended, url } = await serve(t, 'pipe', { WORKERS })
    await fillLog(t, url, 200)
    child.kill('SIGTERM')
    t.equal(await ended, 'SIGKILL', 'it kills itself to end its writing thread')
    const lines = (await text(child.stdout as NodeJS.ReadableStream)).split('\n').slice(0, -1)
    for (const line of lines) t.match(JSON.parse(line), { level: 30 })
  }
})
