/**
 * Runs haproxy with the shipped configuration in front of instances of the service, each in its own
 * process on the same database. Only the addresses of deploy/haproxy/haproxy.cfg are replaced.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../../scripts/dev/port.ts'
import type { Stage } from '../../../scripts/dev/stage.ts'
import { testEnvironment } from '../environment.ts'
import { findProgram, startProgram, type Running } from '../process/programs.ts'
import { useRestartableService, type RestartableService } from '../process/restartable-service.ts'
import { until } from '../until.ts'

export const haproxy = findProgram('haproxy')

const shipped = new URL('../../../deploy/haproxy/haproxy.cfg', import.meta.url)

/** Starts an instance on free ports and waits until it is ready. */
export async function startInstance (
  t: Stage,
  databaseUrl: string,
  env: Readonly<Record<string, string>> = {}
): Promise<RestartableService> {
  const service = await useRestartableService(t, {
    DATABASE_URL: databaseUrl,
    POOL_SIZE: testEnvironment.POOL_SIZE,
    QUEUE_TIMEOUT_MS: testEnvironment.QUEUE_TIMEOUT_MS,
    SHUTDOWN_DELAY_MS: '5000',
    ...env
  }, 'SIGKILL')
  await service.ready()
  return service
}

export interface Balancer extends Running {
  readonly url: string
  readonly statsUrl: string
  /** The state of each server by name: `UP`, `DOWN`, … */
  states(): Promise<Readonly<Record<string, string>>>
}

/**
 * Starts haproxy in front of `servers`, which replace oneflight-1, oneflight-2 and so on. The end
 * of `t` stops it.
 */
export async function startBalancer (
  t: Stage,
  servers: ReadonlyArray<Pick<RestartableService, 'url' | 'adminUrl'>>,
  change: (config: string) => string = config => config
): Promise<Balancer> {
  const [port, statsPort] = [await freePort(), await freePort()]
  const config = servers.reduce(
    (text, { url, adminUrl }, i) =>
      text.replace(
        ` oneflight-${i + 1}:4000`,
        ` ${new URL(url).host} port ${new URL(adminUrl).port}`
      ),
    (await readFile(shipped, 'utf8')).replace('bind :4000', `bind 127.0.0.1:${port}`).replace(
      'bind :8404',
      `bind 127.0.0.1:${statsPort}`
    )
  )
  const folder = await mkdtemp(join(tmpdir(), 'oneflight-haproxy-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const file = join(folder, 'haproxy.cfg')
  await writeFile(file, change(config))
  const running = startProgram(t, haproxy as string, ['-f', file])
  const statsUrl = `http://127.0.0.1:${statsPort}`
  const states = async (): Promise<Record<string, string>> => {
    const response = await fetch(`${statsUrl}/;csv`, { headers: { connection: 'close' } })
    const [head = '', ...lines] = (await response.text()).trim().split('\n')
    const names = head.replace('# ', '').split(',')
    const rows = lines.map(line =>
      Object.fromEntries(line.split(',').map((value, i) => [names[i] as string, value]))
    )
    const servers = rows.filter(({ svname }) => /^oneflight-/.test(svname ?? ''))
    return Object.fromEntries(
      servers.map(({ svname, status }) => [svname as string, status as string])
    )
  }
  await until(async () => {
    if (running.child.exitCode !== null) throw new Error(`haproxy ended: ${running.output()}`)
    const now = await states().catch(() => ({}))
    return servers.every((_, i) => (now as Record<string, string>)[`oneflight-${i + 1}`] === 'UP')
  })
  return { ...running, url: `http://127.0.0.1:${port}`, statsUrl, states }
}
