/**
 * Tests compose.yaml: mounted files exist, ports are published only on 127.0.0.1, image versions
 * are pinned, and traces are sent only if Jaeger runs. Only the test with `docker compose` needs a
 * container engine.
 */
import { createHmac } from 'node:crypto'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { findProgram, needs, runProgram } from '../../support/process/programs.ts'

interface Service {
  readonly image?: string
  readonly command?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly ports?: readonly string[]
  readonly volumes?: readonly string[]
}

const root = resolve(import.meta.dirname, '../../..')
const text = readFileSync(join(root, 'compose.yaml'), 'utf8')
const { services, volumes } = parse(text, { merge: true }) as {
  services: Record<string, Service>,
  volumes: Record<string, unknown>
}
const all = Object.entries(services)

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
        '--quiet'
      ], { cwd: root })
      t.equal(code, 0, output)
    }
  }
)
