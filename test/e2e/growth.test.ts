/**
 * Runs the measurements for the page on growth in their smallest form. Figures are not judged,
 * because the machine is shared.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { haproxy } from '../support/network/haproxy.ts'
import { needs } from '../support/process/programs.ts'

// About 40 s on an idle machine.
t.setTimeout(300_000)

const root = join(import.meta.dirname, '../..')
const record = (): string =>
  readFileSync(join(root, 'test/experiments/growth/measured.json'), 'utf8')

t.test(...needs('a quick run measures everything, and writes nothing', { haproxy }), async t => {
  const before = record()
  const child = spawn(process.execPath, [
    '--disable-warning=ExperimentalWarning',
    join(root, 'test/experiments/run.ts'),
    'growth',
    '--quick'
  ], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => child.kill('SIGTERM'))
  const [output, errors] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit')
  ])
  t.equal(child.exitCode, 0, errors)
  t.match(output, /^processor time of the load balancer, of that of the service +\d/m)
  t.match(output, /^processor time of PostgreSQL without prepared statements +\d/m)
  t.match(output, /\n\| 2, 40 ms \| [^]*\n\| 6, 40 ms \| [^]*\n\| 1, 0 ms \| [^]*\n\| 4, 0 ms \| /)
  t.match(output, 'quick run: nothing was written')
  t.equal(record(), before)
})
