/**
 * Tests `oneflight run` with no response, a partial response or a response of another server: the
 * reported outcome and the exit code. Uses fake servers instead of the service.
 */
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { freePort } from '../../scripts/dev/port.ts'
import { runCommand } from '../../src/cli/main.ts'
import { useListener } from '../support/network/listen.ts'
import { certs } from '../support/network/tls-server.ts'
import { oneflight, runInside, type Ended } from '../support/process/cli.ts'

const input = '[{"id":"a","op":"select","table":"t"}]'

async function run (
  url: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {}
): Promise<Ended> {
  return await oneflight(['run', '--url', url, ...args, '-'], { input, env })
}

/** Checks the outcome of a batch that commits and of three that never commit. */
async function compare (
  t: Test,
  url: string,
  reason: RegExp,
  outcome = 'it is unknown whether the batch was committed',
  code = 3
): Promise<void> {
  for (
    const [args, expected, what] of [
      [[], code, outcome],
      [['--dry-run'], 1, 'nothing was committed'],
      [['--read-only'], 1, 'nothing was committed'],
      [['--explain'], 1, 'nothing was committed']
    ] as const
  ) {
    const { code, out, err } = await runInside(['run', '--url', url, ...args, '-'], { input })
    t.same([code, out], [expected, ''], args.join())
    t.match(err, reason)
    t.equal(err.split('\n').length, 2, 'one line')
    t.ok(err.startsWith(`oneflight: ${url}/: `) && err.endsWith(`: ${what}\n`), err)
  }
}

const serve = async (t: Test, listener: RequestListener): Promise<string> =>
  `http://127.0.0.1:${await useListener(t, createServer(listener))}`

t.test('no server: nothing is committed', async t => {
  const address = `127.0.0.1:${await freePort()}`
  await compare(t, `http://${address}`, /ECONNREFUSED/, 'nothing was committed', 1)
  // A name with two addresses. Node then reports an AggregateError without a message.
  const hook = "import dns from 'node:dns'; dns.lookup = (name, options, done) => done(null, [{ " +
    "address: '127.0.0.1', family: 4 }, { address: '127.0.0.2', family: 4 }])"
  const NODE_OPTIONS = `${process.env['NODE_OPTIONS'] ?? ''} --import=data:text/javascript,${
    encodeURIComponent(hook).replaceAll("'", '%27')
  }`
  const url = `http://oneflight.example:${address.split(':')[1]}`
  t.match(await run(url, [], { NODE_OPTIONS }), {
    code: 1,
    err: new RegExp(`^oneflight: ${url}/: E[A-Z]+: nothing was committed\n$`)
  })
})

t.test('the connection is lost before the response', async t => {
  const url = await serve(t, request => {
    request.on('end', () => request.socket.destroy()).resume()
  })
  await compare(t, url, /socket hang up/)
})

t.test('no response before the timeout', async t => {
  const url = await serve(t, () => {})
  const { code, err } = await run(url, ['--timeout', '0.2'])
  t.same([code, err], [
    3,
    `oneflight: ${url}/: no response within 0.2 s: it is unknown whether the batch was committed\n`
  ])
})

t.test('on a terminal, a line shows how long the response takes', async t => {
  const wait = async (seconds: number, isTTY: boolean): Promise<string> => {
    const url = await serve(t, (_request, response) => {
      mock.timers.tick(seconds * 1000)
      response.end('{"error":null,"data":{"a":[]}}')
    })
    const stderr = Object.assign(new PassThrough(), { isTTY })
    mock.timers.enable({ apis: ['setInterval'] })
    const code = await runCommand(['run', '--url', url, '-'], '1.0.0', {
      env: {},
      stdin: Readable.from([Buffer.from(input)]),
      stdout: new PassThrough(),
      stderr
    })
    mock.timers.reset()
    t.equal(code, 0)
    return await text(stderr.end())
  }
  t.equal(
    await wait(2, true),
    '\roneflight: waiting for the response (1 s)\u001b[K' +
      '\roneflight: waiting for the response (2 s)\u001b[K\r\u001b[K'
  )
  t.equal(await wait(0.9, true), '')
  t.equal(await wait(2, false), '')
})

t.test('a truncated response with status 200 means committed', async t => {
  const cut = (status: number): Promise<string> =>
    serve(t, (_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json', 'content-length': 100 })
      response.write('{"error":', () => response.destroy())
    })
  await compare(t, await cut(200), /aborted/, 'the batch was committed, but its response was lost')
  await compare(t, await cut(400), /aborted/)
})

t.test('a response of another server', async t => {
  const answers: ReadonlyArray<readonly [status: number, body: string]> = [
    [502, '<h1>Bad Gateway</h1>'],
    [200, '<h1>Welcome</h1>'],
    [200, '{"error":null,"data":7}'],
    [404, '{"error":"not found"}'],
    [301, '']
  ]
  for (const [status, body] of answers) {
    const url = await serve(t, (_request, response) => {
      response.writeHead(status, { location: 'http://127.0.0.1:1/' }).end(body)
    })
    await compare(t, url, new RegExp(`response with status ${status} is not from oneflight`))
  }
})

t.test('the service reports commit_unknown', async t => {
  const error = {
    type: 'error_of_a_later_version',
    code: 'commit_unknown',
    message: 'The connection was lost.',
    committed: 'unknown',
    request_id: 'r'
  }
  const url = await serve(t, (_request, response) => {
    response.writeHead(500).end(JSON.stringify({ error, data: null }))
  })
  t.match(await run(url, ['--timing']), {
    code: 3,
    err: 'oneflight: <stdin>: commit_unknown: The connection was lost.\n  it is unknown ' +
      'whether the batch was committed; request r\n'
  })
})

t.test('the path of the URL is kept; timings and plans are printed', async t => {
  const requests: unknown[] = []
  const plan = '{"error":null,"data":{"a":[{"plan of a later version":"\\u001b"}]}}'
  const url = await serve(t, async (request, response) => {
    const own = Object.entries(request.headers).filter(([name]) =>
      !['host', 'connection', 'content-length'].includes(name))
    requests.push([request.url, Object.fromEntries(own), await text(request)])
    response.writeHead(200, { 'server-timing': 'parse;dur=0.1, db;dur=2.5' }).end(plan)
  })
  t.same(await run(`${url}/batches?a=b`, ['--explain', '--timing', '--table']), {
    code: 0,
    out: 'a: select t\n[{"plan of a later version":"\\u001b"}]\n',
    err: 'Server-Timing: parse;dur=0.1, db;dur=2.5\n'
  })
  await run(url)
  const json = { 'content-type': 'application/json' }
  t.same(requests, [
    ['/batches?a=b', { ...json, prefer: 'handling=strict, explain, timing' }, input],
    ['/', { ...json, prefer: 'handling=strict' }, input]
  ])
})

t.test('responses too deep for a table, or with a last newline, are printed as is', async t => {
  const deep = `{"error":null,"data":{"a":[{"x":${'['.repeat(20_000)}${']'.repeat(20_000)}}]}}\n`
  const rows = [[deep, '--table'], [deep.trimEnd(), '--table'], [deep, '--json']] as const
  for (const [answer, format] of rows) {
    const url = await serve(t, (_request, response) => {
      response.end(answer)
    })
    t.same(await runInside(['run', '--url', url, format, '-'], { input }), {
      code: 0,
      out: deep,
      err: ''
    })
  }
})

t.test('over TLS nothing is sent to a server with an untrusted certificate', async t => {
  const answer = '{"error":null,"data":{"a":[]}}'
  const [key, cert] = ['server.key', 'server.crt'].map(name =>
    readFileSync(`${certs}/${name}`)
  ) as [Buffer, Buffer]
  let asked = 0
  const server = createHttpsServer({ key, cert }, (_request, response) => {
    asked++
    response.end(answer)
  })
  const url = `https://127.0.0.1:${await useListener(t, server)}`
  await compare(t, url, /certificate/, 'nothing was committed', 1)
  t.equal(asked, 0)
  t.same(await run(url, [], { NODE_EXTRA_CA_CERTS: `${certs}/ca.crt` }), {
    code: 0,
    out: `${answer}\n`,
    err: ''
  })
})
