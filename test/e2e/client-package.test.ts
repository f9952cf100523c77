/**
 * Tests the client package: compiled with its own settings, packed, installed in an empty folder,
 * and used from JavaScript and TypeScript.
 */
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { linksOf } from '../support/docs/pages.ts'
import { runProgram } from '../support/process/programs.ts'
import { token, useService } from '../support/service.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const tsc = join(root, 'node_modules/typescript/bin/tsc')

/** Runs npm without a registry and with its own cache. */
const npm = (cwd: string, ...args: readonly string[]) =>
  run('npm', args, {
    cwd,
    env: {
      ...process.env,
      npm_config_offline: 'true',
      npm_config_audit: 'false',
      npm_config_fund: 'false',
      npm_config_cache: join(cwd, '.npm')
    }
  })

t.test('the client package can be packed, installed and used', async t => {
  // Inside the project, so that its compiler is found, as when the package is published.
  const source = join(t.testdir(), 'client')
  await cp(join(root, 'client'), source, {
    recursive: true,
    filter: path => !/\/(?:dist|node_modules)$/.test(path)
  })
  const [packed] = JSON.parse(
    (await npm(source, 'pack', '--json')).stdout.replace(/^[^[]*/, '')
  ) as Array<{ filename: string, files: ReadonlyArray<{ path: string }> }>
  const files = packed?.files.map(({ path }) => path) ?? []
  t.ok(files.includes('LICENSE') && files.includes('README.md'), files.join())
  t.same(
    files.filter(path =>
      !/^(?:dist\/[\w-]+\.(?:js|d\.ts)|LICENSE|README\.md|package\.json)$/.test(path)
    ),
    [],
    'the package contains no other files'
  )
  const links = linksOf(await readFile(join(source, 'README.md'), 'utf8'))
  t.same(links.filter(target => !URL.canParse(target) && !files.includes(target)), [])

  const home = await mkdtemp(join(tmpdir(), 'oneflight-client-'))
  t.teardown(() => rm(home, { recursive: true }))
  await writeFile(join(home, 'package.json'), '{"type":"module","private":true}')
  await npm(home, 'install', join(source, packed?.filename ?? ''))

  const service = await useService(t, {
    schema: 'create table stock (sku text primary key, qty int)',
    keys: true
  })
  await writeFile(
    join(home, 'use.js'),
    `
    import { createClient, $, OneflightError } from 'oneflight-client'
    const client = createClient({ url: process.argv[2], token: process.argv[3] })
    await client.batch(b => { b.insert('stock', { sku: 'apple', qty: 1 }) })
    const { data } = await client.batch(b => ({ apple: b.update('stock', { set: { qty: $.inc(2) },
      where: { sku: { eq: 'apple' } } }) }))
    const again = await client.batch(b => b.insert('stock', { sku: 'apple' })).catch(error => error)
    console.log(JSON.stringify([data, again instanceof OneflightError, again.code]))`
  )
  const { stdout } = await run(process.execPath, [
    'use.js',
    service.url,
    token({ role: 'oneflight_user' })
  ], { cwd: home })
  t.same(JSON.parse(stdout), [{ apple: [{ sku: 'apple', qty: 3 }] }, true, 'unique_violation'])

  await mkdir(join(home, 'src'))
  await writeFile(
    join(home, 'src/use.ts'),
    `
    import { createClient, $, OneflightError, type Batch } from 'oneflight-client'
    interface Database { stock: { sku: string, qty: number } }
    const client = createClient<Database>({ url: 'https://batch.example.com',
      token: async () => 'x' })
    export const take = (b: Batch<Database>, sku: string) => b.update('stock', {
      set: { qty: $.inc(-1) }, where: { sku: { eq: sku } }, expect: 1 })
    const { data } = await client.batch(b => ({ taken: take(b,
      'apple') })).catch((error: OneflightError) => { throw error })
    const qty: number = data.taken[0].qty
    // @ts-expect-error there is no such column
    client.batch(b => b.select('stock', { columns: ['quantity'] }))
    console.log(qty)`
  )
  const variants = [
    ['--module', 'nodenext'],
    ['--module', 'esnext', '--moduleResolution', 'bundler']
  ]
  for (const settings of variants) {
    const { output } = await runProgram(process.execPath, [
      tsc,
      '--noEmit',
      '--strict',
      '--exactOptionalPropertyTypes',
      '--target',
      'es2022',
      '--lib',
      'es2022,dom',
      ...settings,
      'src/use.ts'
    ], { cwd: home })
    t.equal(output, '', settings.join(' '))
  }
  const { version } = JSON.parse(
    await readFile(join(home, 'node_modules/oneflight-client/package.json'), 'utf8')
  ) as { version: string }
  const manifest = await readFile(join(root, 'package.json'), 'utf8')
  const { version: serviceVersion } = JSON.parse(manifest) as { version: string }
  t.equal(version, serviceVersion, 'the version equals that of the service')
})
