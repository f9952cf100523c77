/** Tests the parts of `npm run dev`: server account, directories, programs and port. */
import { chmod, mkdir, mkdtemp, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  as,
  give,
  reaches,
  scratchDirectory,
  serverAccount
} from '../../../../scripts/dev/account.ts'
import { runnableBinaries } from '../../../../scripts/dev/binaries.ts'
import { reachableDataDirectory } from '../../../../scripts/dev/datadir.ts'
import { accepts, freePort, preferPort } from '../../../../scripts/dev/port.ts'

const account = serverAccount()

async function makeDirectory (t: Test): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'oneflight-test-'))
  await chmod(directory, 0o755)
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/**
 * Writes a PostgreSQL package whose programs are one-line scripts. With mode 0600 they are not
 * executable.
 */
async function fakePackage (
  base: string,
  { mode = 0o755, script = 'exit 0', links = true } = {}
): Promise<{ native: string, version: string }> {
  const native = join(base, 'native')
  for (const directory of ['bin', 'lib', 'share/postgresql/timezonesets']) {
    await mkdir(join(native, directory), { recursive: true })
  }
  const files = [
    'share/postgresql/postgres.bki',
    'share/postgresql/timezonesets/Default',
    'lib/libpq.so.5.18'
  ]
  for (const file of files) await writeFile(join(native, file), '')
  for (const program of ['initdb', 'postgres']) {
    await writeFile(join(native, 'bin', program), `#!/bin/sh\n${script}\n`, { mode })
  }
  if (links) {
    await writeFile(
      join(native, 'pg-symlinks.json'),
      '[{"source":"native/lib/libpq.so.5.18","target":"native/lib/libpq.so.5"}]'
    )
  }
  return { native, version: '18.0.0-test' }
}

t.test('root runs the server as another user, other users run it themselves', async t => {
  const passwd = join(await makeDirectory(t), 'passwd')
  const cases = [
    [1000, 'postgres:x:101:104:,,,:/:/bin/sh\n', undefined],
    [
      0,
      'nobody:x:65534:65533::/:/bin/sh\npostgres:x:101:104:,,,:/:/bin/sh\n',
      { name: 'postgres', uid: 101, gid: 104 }
    ],
    [
      0,
      'root:x:0:0::/:/bin/sh\nnobody:x:65534:65533::/:/bin/sh\n',
      { name: 'nobody', uid: 65534, gid: 65533 }
    ]
  ] as const
  for (const [uid, text, expected] of cases) {
    await writeFile(passwd, text)
    t.strictSame(serverAccount(uid, passwd), expected)
  }
  await writeFile(passwd, 'root:x:0:0::/:/bin/sh\n')
  t.throws(() => serverAccount(0, passwd), { message: /no user "postgres" or "nobody"/ })
  t.hasOwnProps(as({ name: 'nobody', uid: 65534, gid: 65533 }), ['uid', 'gid', 'cwd', 'env'])
  t.notHas(as(undefined), { uid: Number })
  await give(passwd, undefined)
  await give(passwd, { name: 'self', uid: process.getuid?.() ?? -1, gid: process.getgid?.() ?? -1 })
  t.equal((await stat(passwd)).uid, process.getuid?.(), 'the owner is unchanged')
})

t.test('directories that the server cannot use are skipped', async t => {
  const base = await makeDirectory(t)
  const closed = join(base, 'closed')
  await mkdir(closed)
  await chmod(closed, 0o600)
  t.notOk(await reaches(account, closed))
  t.equal(await scratchDirectory(account, [closed, join(base, 'x'.repeat(60)), base]), base)
  await t.rejects(scratchDirectory(account, [closed]), { message: /set TMPDIR/ })

  t.equal(
    await reachableDataDirectory(join(base, 'deep', 'data'), account),
    join(base, 'deep', 'data')
  )
  const substitute = await reachableDataDirectory(join(closed, 'data'), account, base)
  t.match(substitute, /oneflight-[0-9a-f]{12}$/)
  t.equal(
    await reachableDataDirectory(join(closed, 'data'), account, base),
    substitute,
    'the directory is the same every time'
  )
})

t.test('runnable programs are used in place, with their links restored', async t => {
  const base = await makeDirectory(t)
  const installed = await fakePackage(base)
  t.equal(await runnableBinaries(installed, account, base), installed.native)
  t.equal(await readlink(join(installed.native, 'lib', 'libpq.so.5')), 'libpq.so.5.18')
  t.equal(
    await runnableBinaries(installed, account, base),
    installed.native,
    'existing links are accepted'
  )
  await writeFile(
    join(installed.native, 'pg-symlinks.json'),
    '[{"source":"native/lib/a","target":"native/nowhere/a"}]'
  )
  t.equal(
    await runnableBinaries(installed, account, base),
    installed.native,
    'links that cannot be created are ignored'
  )
})

t.test('other programs are copied once, and again if the copy is damaged', async t => {
  const base = await makeDirectory(t)
  const installed = await fakePackage(join(base, 'package'), { mode: 0o600 })
  const [copy, same] = await Promise.all([
    runnableBinaries(installed, account, base),
    runnableBinaries(installed, account, base)
  ])
  t.equal(copy, join(base, `oneflight-postgres-18.0.0-test-${process.getuid?.()}`))
  t.equal(same, copy, 'parallel starts share the copy')
  const { ino } = await stat(copy)
  t.equal(await runnableBinaries(installed, account, base), copy)
  t.equal((await stat(copy)).ino, ino, 'an intact copy is kept')
  await rm(join(copy, 'bin'), { recursive: true })
  t.equal(await runnableBinaries(installed, account, base), copy)
  t.match(await readFile(join(copy, 'bin', 'postgres'), 'utf8'), 'exit 0')
  await chmod(copy, 0o777)
  await runnableBinaries(installed, account, base)
  t.equal((await stat(copy)).mode & 0o022, 0, 'a copy that others can write is replaced')
})

t.test('the error for programs that do not run suggests TEST_DATABASE_URL', async t => {
  const base = await makeDirectory(t)
  const installed = await fakePackage(base, { script: 'exit 127', links: false })
  await t.rejects(runnableBinaries(installed, account, base), {
    message: /does not run on this system.*TEST_DATABASE_URL/
  })
})

t.test('freePort skips a port in use', async t => {
  const { random } = Math
  t.teardown(() => {
    Math.random = random
  })
  const first = random()
  Math.random = () => first
  const taken = await freePort()
  t.notOk(await accepts(taken))
  t.equal(await preferPort(taken), taken)
  t.ok(taken >= 12_000 && taken < 30_000, 'below the ephemeral ports')
  const server = createServer()
  t.teardown(() => server.close())
  await new Promise<void>(resolve => server.listen(taken, '127.0.0.1', resolve))
  t.ok(await accepts(taken))
  const numbers = [first, (first + 0.5) % 1]
  Math.random = () => numbers.shift() ?? random()
  t.not(await preferPort(taken), taken)
  t.same(numbers, [], 'the second port is used')
  Math.random = () => first
  await t.rejects(freePort(), { code: 'EADDRINUSE' }, 'no port is free')
})
