/** Tests the parts of `npm run dev`: server account, directories and programs. */
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
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

const account = serverAccount()

async function makeDirectory (t: Test): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'oneflight-test-'))
  await chmod(directory, 0o755)
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** Writes a PostgreSQL package whose programs are not executable. */
async function fakePackage (base: string): Promise<{ native: string, version: string }> {
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
    await writeFile(join(native, 'bin', program), '#!/bin/sh\nexit 0\n', { mode: 0o600 })
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

t.test('other programs are copied once, and again if the copy is damaged', async t => {
  const base = await makeDirectory(t)
  const installed = await fakePackage(join(base, 'package'))
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
