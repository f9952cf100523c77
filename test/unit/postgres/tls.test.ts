/** Tests every `sslmode` against servers with TLS, without TLS and with faulty TLS. */
import { execFile } from 'node:child_process'
import { copyFile } from 'node:fs/promises'
import { TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import t from 'tap'
import { nameHosts, open, ping } from '../../support/network/sockets.ts'
import { certs, startServer, type Behaviour } from '../../support/network/tls-server.ts'

const CA = `sslrootcert=${certs}/ca.crt`
const OTHER_CA = `sslrootcert=${certs}/other-ca.crt`
nameHosts({ 'elsewhere.test': ['127.0.0.1'] })

type Expected = 'plain' | 'tls' | RegExp
const untrusted = /self-signed certificate|unable to verify|unable to get/
const modes: ReadonlyArray<
  readonly [server: Behaviour, host: string, query: string, expected: Expected]
> = [
  ['tls', '127.0.0.1', 'sslmode=disable', 'plain'],
  ['tls', '127.0.0.1', 'sslmode=allow', 'tls'],
  ['tls', '127.0.0.1', 'sslmode=prefer', 'tls'],
  ['tls', '127.0.0.1', 'sslmode=require', 'tls'],
  ['tls', '127.0.0.1', `sslmode=verify-ca&${CA}`, 'tls'],
  ['tls', '127.0.0.1', `sslmode=verify-ca&${OTHER_CA}`, untrusted],
  ['tls', 'localhost', `sslmode=verify-full&${CA}`, 'tls'],
  ['tls', 'elsewhere.test', `sslmode=verify-ca&${CA}`, 'tls'],
  [
    'tls',
    'elsewhere.test',
    `sslmode=verify-full&${CA}`,
    /elsewhere\.test\. is not in the cert's altnames/
  ],
  ['tls', '127.0.0.1', `sslmode=verify-full&${OTHER_CA}`, untrusted],
  ['no-tls', '127.0.0.1', 'sslmode=allow', 'plain'],
  ['no-tls', '127.0.0.1', 'sslmode=prefer', 'plain'],
  [
    'no-tls',
    '127.0.0.1',
    'sslmode=require',
    /does not support TLS, which sslmode=require requires/
  ],
  ['no-tls', '127.0.0.1', `sslmode=verify-full&${CA}`, /does not support TLS/],
  ['extra-bytes', '127.0.0.1', 'sslmode=prefer', /expected one byte, S or N/],
  ['close', '127.0.0.1', 'sslmode=prefer', /closed the connection/],
  [
    'broken-handshake',
    '127.0.0.1',
    'sslmode=prefer',
    /ECONNRESET|closed the connection|disconnected/
  ],
  ['direct', '127.0.0.1', 'sslmode=require&sslnegotiation=direct', 'tls'],
  ['direct', '127.0.0.1', `sslmode=verify-full&sslnegotiation=direct&${CA}`, 'tls'],
  [
    'direct-without-alpn',
    '127.0.0.1',
    'sslmode=require&sslnegotiation=direct',
    /did not select the ALPN protocol "postgresql"/
  ]
]

for (const [behaviour, host, query, expected] of modes) {
  t.test(`${behaviour}, ${host}, ${query.replaceAll(certs, '')}`, async t => {
    const server = await startServer(behaviour)
    t.teardown(server.stop)
    const opening = open(`${host}:${server.port}`, query)
    if (expected instanceof RegExp) {
      const error = await t.rejects(opening, { message: expected }) as unknown as Error
      t.match(error.message, `${host}:${server.port}: `)
      t.notMatch(error.message, /hunter2/)
      // No connection stays open.
      await server.unused()
      return
    }
    const socket = await opening
    t.equal(socket instanceof TLSSocket, expected === 'tls')
    t.strictSame(
      ['data', 'readable', 'connect', 'secureConnect'].map(event => socket.listenerCount(event)),
      [0, 0, 0, 0]
    )
    t.equal(
      socket.listeners('error').filter(listener => !/tls/i.test(listener.name)).length,
      0,
      'our error listeners are removed'
    )
    t.equal(await ping(socket), 'pong')
  })
}

t.test('the client certificate is presented to the server', async t => {
  const server = await startServer('tls')
  t.teardown(server.stop)
  const socket = await open(
    `127.0.0.1:${server.port}`,
    `sslmode=verify-full&${CA}&sslcert=${certs}/client.crt&sslkey=${certs}/client.key`
  )
  t.equal(await ping(socket), 'pong')
  t.equal(server.clientName(), 'oneflight_client')
})

t.test('unusable certificate files are reported', async t => {
  const empty = `${t.testdir({ 'empty.crt': '' })}/empty.crt`
  const files = [
    [`sslmode=verify-full&sslrootcert=${certs}/missing.crt`, /ENOENT.*missing\.crt/],
    [`sslmode=verify-full&sslrootcert=${empty}`, /sslrootcert contains no certificate/],
    [
      `sslmode=require&sslcert=${certs}/server.crt&sslkey=${certs}/client.key`,
      /cannot be used: .*mismatch/
    ]
  ] as const
  for (const [query, message] of files) await t.rejects(open('127.0.0.1:1', query), { message })
})

t.test('a renewed root certificate is used without a restart', async t => {
  const server = await startServer('tls')
  t.teardown(server.stop)
  const directory = t.testdir()
  await copyFile(`${certs}/other-ca.crt`, `${directory}/root.crt`)
  await t.rejects(
    open(`127.0.0.1:${server.port}`, `sslmode=verify-ca&sslrootcert=${directory}/root.crt`)
  )
  await copyFile(`${certs}/ca.crt`, `${directory}/root.crt`)
  const socket = await open(
    `127.0.0.1:${server.port}`,
    `sslmode=verify-ca&sslrootcert=${directory}/root.crt`
  )
  t.equal(await ping(socket), 'pong')
})

t.test('sslrootcert=system uses the trust store of the system', {
  skip: process.platform !== 'linux' && 'the trust store is not a file on this platform'
}, async t => {
  const server = await startServer('tls')
  t.teardown(server.stop)
  const attempt = async (file: string): Promise<string> => {
    const env = { ...process.env, SSL_CERT_FILE: file, SSL_CERT_DIR: t.testdir() }
    const args = [
      `${import.meta.dirname}/../../support/network/open-socket.ts`,
      `127.0.0.1:${server.port}`,
      'sslrootcert=system'
    ]
    return (await promisify(execFile)(process.execPath, args, { env })).stdout
  }
  t.equal(await attempt(`${certs}/ca.crt`), 'open\n')
  t.match(await attempt('/dev/null'), /certificate/, "an empty store is replaced by Node's own")
})
