/**
 * Tests compose.yaml: mounted files exist, ports are published only on 127.0.0.1, image versions
 * are pinned, services started together do not publish the same port, and traces are sent only if
 * Jaeger runs. Only the test with `docker compose` needs a container engine.
 */
import { createHmac } from 'node:crypto'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { configItems } from '../../../schemas/config.ts'
import { findProgram, needs, runProgram } from '../../support/process/programs.ts'

interface Service {
  readonly image?: string
  readonly build?: string
  readonly pull_policy?: string
  readonly command?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly profiles?: readonly string[]
  readonly ports?: readonly string[]
  readonly volumes?: readonly string[]
  readonly depends_on?:
    | readonly string[]
    | Readonly<Record<string, { readonly condition: string, readonly required?: boolean }>>
  readonly networks?: { readonly default: { readonly aliases: readonly string[] } }
  readonly stop_grace_period?: string
}

const root = resolve(import.meta.dirname, '../../..')
const text = readFileSync(join(root, 'compose.yaml'), 'utf8')
const { services, volumes } = parse(text, { merge: true }) as {
  services: Record<string, Service>,
  volumes: Record<string, unknown>
}
const all = Object.entries(services)

const needed = (
  { depends_on: needs = {} }: Service
): ReadonlyArray<readonly [name: string, required: boolean]> =>
  Array.isArray(needs)
    ? needs.map(name => [name, true] as const)
    : Object.entries(needs).map(([name, { required = true }]) => [name, required] as const)

/**
 * The services that `docker compose --profile ... up [targets]` starts: the targets, or all
 * services of the profiles, and their dependencies.
 */
function started (profiles: readonly string[], targets?: readonly string[]): ReadonlySet<string> {
  const enabled = (name: string): boolean =>
    services[name]?.profiles?.some(profile => profiles.includes(profile)) ?? true
  const found = new Set<string>()
  const add = (name: string): void => {
    if (found.has(name)) return
    found.add(name)
    for (const [need, required] of needed(services[name] as Service)) {
      if (required || enabled(need)) add(need)
    }
  }
  for (const name of targets ?? Object.keys(services).filter(enabled)) add(name)
  return found
}

t.test('every service has a pinned image, local ports and read-only mounts', async t => {
  for (const [name, service] of all) {
    for (const port of service.ports ?? []) {
      t.match(port, /^127\.0\.0\.1:\d+:\d+$/, `${name} publishes ${port} only on 127.0.0.1`)
    }
    if (service.image !== 'oneflight:local') {
      t.match(
        service.image,
        /:v?\d+\.\d+(\.\d+)?(-[a-z0-9]+)?$/,
        `${name}: ${service.image} has a version`
      )
    }
    for (const volume of service.volumes ?? []) {
      const [source = '', , mode] = volume.split(':')
      if (Object.hasOwn(volumes, source)) continue
      t.ok(existsSync(join(root, source)), `${name} mounts ${source}`)
      t.equal(mode, 'ro', `${name} mounts ${source} read-only`)
    }
    for (const [need, required] of needed(service)) {
      const other = services[need]
      const [own, its] = [service.profiles ?? [], other?.profiles ?? []]
      t.ok(
        other !== undefined &&
          (!required || its.length === 0 || own.some(profile => its.includes(profile))),
        `${need} is available to ${name}`
      )
    }
  }
  t.same(
    new Set(all.flatMap(([, { profiles = [] }]) => profiles)),
    new Set(['observability', 'replicas', 'pgbouncer'])
  )
})

t.test('one service builds the image, and every setup starts that service', async t => {
  const own = all.filter(([, { image }]) => image === 'oneflight:local')
  t.same(own.filter(([, { build }]) => build !== undefined).map(([name]) => name), ['migrate'])
  for (const [name, { pull_policy: policy }] of own) {
    if (name === 'migrate') continue
    t.equal(policy, 'never', `${name} does not pull the image from a registry`)
    t.ok(started([], [name]).has('migrate'), `${name} starts after migrate`)
  }
})

t.test('the documented commands start the expected services', async t => {
  const watched = ['prometheus', 'blackbox', 'grafana', 'jaeger']
  const basis = ['database', 'migrate', 'hint']
  const commands = [
    ['docker compose up', started([]), [...basis, 'oneflight']],
    [
      '--profile observability up',
      started(['observability']),
      [...basis, 'oneflight', ...watched]
    ],
    [
      '--profile replicas up haproxy',
      started(['replicas'], ['haproxy']),
      [...basis, 'haproxy', 'oneflight-1', 'oneflight-2', 'oneflight-3']
    ],
    [
      '--profile replicas --profile observability up haproxy grafana blackbox',
      started(['replicas', 'observability'], ['haproxy', 'grafana', 'blackbox']),
      [...basis, 'haproxy', 'oneflight-1', 'oneflight-2', 'oneflight-3', ...watched]
    ],
    [
      '--profile pgbouncer up pooled',
      started(['pgbouncer'], ['pooled']),
      [...basis, 'pgbouncer', 'pooled']
    ]
  ] as const
  for (const [title, actual, expected] of commands) {
    t.same([...actual].toSorted(), [...expected].toSorted(), title)
    const ports = [...actual].flatMap(name => services[name]?.ports ?? []).map(port =>
      port.split(':')[1]
    )
    t.equal(new Set(ports).size, ports.length, `${title}: each port is published once`)
    t.ok(ports.includes('4000'), `${title}: port 4000 is published`)
  }
})

t.test('the commands in compose.yaml and monitoring.md publish each port once', async t => {
  for (const file of ['compose.yaml', 'docs/operations/monitoring.md']) {
    const content = readFileSync(join(root, file), 'utf8')
    const commands = [
      ...content.matchAll(
        /docker compose((?: --profile \w+)*) up (?:--build)?((?: (?!\()[\w-]+)*)/g
      )
    ]
    t.ok(commands.length >= 4, `${file}: ${commands.length} commands`)
    for (const [command, profiles = '', targets = ''] of commands) {
      const names = profiles.split(/ --profile /).filter(name => name !== '').map(name =>
        name.trim()
      )
      const known = targets.trim().split(/ +/).filter(name =>
        name !== '' && Object.hasOwn(services, name)
      )
      const ports = [...started(names, known.length === 0 ? undefined : known)].flatMap(name =>
        services[name]?.ports ?? []
      )
      t.equal(new Set(ports).size, ports.length, command)
    }
  }
})

t.test('Prometheus finds all instances under one DNS name', async t => {
  const config = parse(readFileSync(join(root, 'deploy/observability/prometheus.yml'), 'utf8')) as {
    scrape_configs: ReadonlyArray<
      { dns_sd_configs: ReadonlyArray<{ names: string[], port: number }> }
    >
  }
  const [found] = config.scrape_configs[0]?.dns_sd_configs ?? []
  t.equal(found?.port, configItems.find(([name]) => name === 'ADMIN_HTTP_PORT')?.[1].default)
  const instances = all.filter(([, { command }]) =>
    command?.at(-1)?.endsWith('exec node src/main.ts')
  )
  t.same(instances.map(([name]) => name).toSorted(), [
    'oneflight', 'oneflight-1', 'oneflight-2', 'oneflight-3', 'pooled'
  ])
  for (const [name, { networks, stop_grace_period: grace = '' }] of instances) {
    t.ok([name, ...networks?.default.aliases ?? []].includes(String(found?.names[0])), name)
    t.ok(
      Number.parseInt(grace) * 1000 > Number(
        configItems.find(([name]) => name === 'SHUTDOWN_TIMEOUT_MS')?.[1].default
      ),
      `${name} has ${grace} to stop`
    )
  }
})

t.test('traces are sent only if the host jaeger exists', async t => {
  const [, option = '', script = ''] = services['oneflight']?.command ?? []
  for (const known of [true, false]) {
    const directory = t.testdir({
      getent: `#!/bin/sh\n[ "$*" = "hosts jaeger" ] && ${known}\n`,
      node: '#!/bin/sh\necho "$OTEL_EXPORTER_OTLP_ENDPOINT $* $$"\n'
    })
    for (const name of ['getent', 'node']) chmodSync(join(directory, name), 0o755)
    // The shell must exec the service, so that the service receives the signals.
    writeFileSync(join(directory, 'start'), `#!/bin/sh\necho $$; exec sh ${option} '${script}'`)
    const { output } = await runProgram('/bin/sh', [join(directory, 'start')], {
      env: { PATH: `${directory}:/usr/bin:/bin` }
    })
    const [shell = '', service = ''] = output.trim().split('\n')
    t.equal(service, `${known ? 'http://jaeger:4318' : ''} src/main.ts ${shell}`)
  }
})

t.test('the hint prints a token for the secret of the service', async t => {
  const { command = [], environment = {} } = services['hint'] as Service
  const secret = /:-(.*)\}$/.exec(String(environment['JWT_SECRET']))?.[1] as string
  t.equal(environment['JWT_SECRET'], services['oneflight']?.environment?.['JWT_SECRET'])
  const [, option = '', text = ''] = command
  const script = text.replaceAll('$$', '$')
  const path = `${dirname(process.execPath)}:/usr/bin:/bin`
  const { code, output } = await runProgram('/bin/sh', [option, script], {
    cwd: root,
    env: { PATH: path, JWT_SECRET: secret }
  })
  t.equal(code, 0, output)
  const [, signed = '', signature] =
    /^export ONEFLIGHT_TOKEN=(\S+)\.(\S+)$/m.exec(output) ?? []
  t.equal(signature, createHmac('sha256', secret).update(signed).digest('base64url'))
  t.match(
    output,
    /^curl http:\S+ -H "Authorization: Bearer \$ONEFLIGHT_TOKEN" .* -d '\[.*\]'$/m,
    'one line, which can be copied from the output of `up`'
  )
  const failed = await runProgram('/bin/sh', [option, script], { cwd: root, env: { PATH: path } })
  t.match(failed, { code: 2, output: 'JWT_SECRET' })
})

t.test('every instance runs the named batches of the shop', async t => {
  const instances = all.filter(([, { environment = {} }]) => 'BATCHES_DIR' in environment)
  t.same(instances.map(([name]) => name).toSorted(), [
    'oneflight', 'oneflight-1', 'oneflight-2', 'oneflight-3', 'pooled'
  ])
  for (const [name, { environment = {}, volumes = [] }] of instances) {
    t.same(volumes, [`./deploy/batches:${environment['BATCHES_DIR']}:ro`], name)
  }
})

t.test('the service and the migration use the same database', async t => {
  const urls = ['oneflight', 'migrate'].flatMap(name =>
    Object.entries(services[name]?.environment ?? {})
      .filter(([variable]) => variable.endsWith('DATABASE_URL'))
      .map(([, url]) => url)
  )
  t.equal(urls.length, 3)
  for (const url of urls) t.match(url, /@database:5432\/\$\{DATABASE:-shop\}$/)
})

const docker = findProgram('docker')
const available = docker !== undefined &&
  (await runProgram(docker, ['compose', 'version'])).code === 0

t.test(
  ...needs('docker compose accepts the file', { 'docker compose': available ? docker : undefined }),
  async t => {
    for (const profiles of [[], ['observability'], ['replicas'], ['pgbouncer']]) {
      const { code, output } = await runProgram(docker as string, [
        'compose',
        ...profiles.flatMap(profile => ['--profile', profile]),
        'config',
        '--services'
      ], { cwd: root })
      t.equal(code, 0, output)
      t.same(
        output.trim().split('\n').toSorted(),
        [...all].filter(([, service]) =>
          service.profiles?.some(profile => profiles.includes(profile)) ?? true
        ).map(([name]) => name).toSorted()
      )
    }
  }
)
