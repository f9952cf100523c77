/**
 * Tests the unit of systemd: systemd accepts it, it starts the entry point of the service, and it
 * waits for the end of batches.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readConfig } from '../../../src/config/config.ts'
import { findProgram, needs } from '../../support/process/programs.ts'

const root = join(import.meta.dirname, '../../..')
const unit = readFileSync(join(root, 'deploy/systemd/oneflight.service'), 'utf8')
const valueOf = (name: string): string =>
  new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? ''
const program = findProgram('systemd-analyze')

t.test(...needs('systemd accepts the unit', { 'systemd-analyze': program }), async t => {
  const verify = (text: string): ReturnType<typeof spawnSync> => {
    // Node need not be installed where the test runs.
    const folder = t.testdir({ 'oneflight.service': text.replace('/usr/bin/node', '/bin/sh') })
    return spawnSync(program as string, ['verify', join(folder, 'oneflight.service')], {
      encoding: 'utf8'
    })
  }
  t.match(verify(unit), { status: 0, stderr: /^(?!.*oneflight\.service)/s })
  t.match(verify(unit.replace('KillMode=mixed', 'KillMood=mixed')).stderr, /KillMood/)
})

t.test('the unit starts the service and waits for its end', async t => {
  const { config } = readConfig({ DATABASE_URL: 'postgres://a@b/c', ANON_ROLE: 'anyone' })
  const [, entry = ''] = valueOf('ExecStart').split(' ')
  t.ok(existsSync(join(root, entry)), entry)
  t.ok(Number(valueOf('TimeoutStopSec')) * 1000 > config.SHUTDOWN_TIMEOUT_MS)
  t.match(valueOf('ExecReload'), /-HUP \$MAINPID$/)
})
