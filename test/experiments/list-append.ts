/**
 * The list-append scenario: clients append to lists and read them, at each isolation level, while
 * sessions are terminated, processes killed and connections cut. Checks the history in the manner
 * of Elle: the responses alone must not show an anomaly that the level excludes.
 */
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Stage } from '../../scripts/dev/stage.ts'
import { toElleJson, type HistoryEvent } from '../support/elle/history.ts'
import { checkHistory, type Level } from '../support/elle/levels.ts'
import { useProxy, type Injected, type Proxy } from '../support/network/proxy.ts'
import { useRestartableService } from '../support/process/restartable-service.ts'
import { until } from '../support/until.ts'
import { killAll, type Plan, type Targets } from './killers.ts'
import { startListClients, type ListClients } from './list-clients.ts'
import { levels, schema } from './lists.ts'
import { useServer } from './own-server.ts'
import {
  figureFor,
  seeded,
  type Figure,
  type Goal,
  type Scenario,
  type ScenarioOptions
} from './scenario.ts'

interface Form {
  /** For each level. */
  readonly transactions: number
  readonly kills: Plan['kills']
}

const forms: Readonly<Record<'long' | 'short', Form>> = {
  long: { transactions: 4000, kills: { backend: 4, postmaster: 2, service: 4, both: 1 } },
  short: { transactions: 300, kills: { backend: 1, service: 1 } }
}

/** More than the database connections of the service. */
const CLIENTS = 16

/** The most anomalies that are printed. */
const PRINTED = 5

export const listAppend: Scenario = {
  name: 'list-append',
  run: runListAppend
}

async function runListAppend (
  stage: Stage,
  options: ScenarioOptions
): Promise<readonly Figure[]> {
  const server = await useServer(stage, { schema })
  const proxy = await useProxy(stage, server.loginUrl)
  const service = await useRestartableService(stage, {
    DATABASE_URL: proxy.through(server.loginUrl),
    LOG_LEVEL: 'fatal'
  })
  const figures: Figure[] = []
  for (const level of levels) {
    figures.push(...await runLevel({ stage, server, service, proxy, level }, options))
  }
  return figures
}

interface Scene extends Omit<Targets, 'crowd'> {
  readonly stage: Stage
  readonly proxy: Proxy
  readonly level: Level
}

async function runLevel (
  { stage, server, service, proxy, level }: Scene,
  { long, random, log }: ScenarioOptions
): Promise<readonly Figure[]> {
  const { transactions, kills: planned } = forms[long ? 'long' : 'short']
  const start = performance.now()
  const clients = startListClients({
    url: service.url,
    level,
    clients: CLIENTS,
    transactions,
    random: seeded(random() * 2 ** 32)
  })
  stage.teardown(() => clients.stop())
  const over = new AbortController()
  const cuts = cutConnections(proxy, clients, over.signal, seeded(random() * 2 ** 32))
  const kills = await killAll({ server, service, crowd: clients }, {
    kills: planned,
    batches: transactions,
    random: seeded(random() * 2 ** 32)
  }).finally(() => over.abort())
  const cut = await cuts
  await clients.end()
  const seconds = ((performance.now() - start) / 1000).toFixed(0)
  log(`${level}: ${clients.finished()} batches in ${seconds} s`)
  const verdict = await judge(clients.history, level, log)
  const count = (type: HistoryEvent['type']): number =>
    clients.history.filter(event => event.type === type).length
  const figure = (name: string, value: number, goal?: Goal): Figure =>
    figureFor(27)(`${name}, ${level.replace('-', ' ')}`, value, goal)
  // On a busy machine the short form meets more faults than transactions.
  const many = (atLeast: number): Goal | undefined => long ? { atLeast } : undefined
  const killed = Object.values(kills.counts).reduce((sum, number) => sum + number, 0)
  return [
    figure('batches', count('invoke'), { atLeast: transactions }),
    figure('of these, committed', count('ok'), many(transactions / 4)),
    figure('sessions terminated', kills.terminated, { atLeast: 1 }),
    figure('SIGKILL of PostgreSQL or the service', killed, {
      atLeast: Object.values(planned).reduce((sum, number) => sum + number, 0)
    }),
    figure('connections cut', cut, { atLeast: 1 }),
    ...level === 'serializable'
      ? []
      : [figure('anomalies that the level allows', verdict.allowed.length, many(1))],
    figure('anomalies that the level excludes', verdict.forbidden.length, { exactly: 0 })
  ]
}

/**
 * Checks a history and prints its anomalies. Writes it to HISTORY_DIR, or to the directory for
 * temporary files if it has an anomaly that the level excludes: no run is repeated exactly.
 */
async function judge (
  history: readonly HistoryEvent[],
  level: Level,
  log: (text: string) => void
): Promise<ReturnType<typeof checkHistory>> {
  const start = performance.now()
  const verdict = checkHistory(history, level)
  const counts = Object.entries(Object.groupBy(verdict.allowed, ({ type }) => type))
    .map(([type, anomalies]) => `${anomalies?.length} ${type}`)
  const seconds = ((performance.now() - start) / 1000).toFixed(1)
  log(`${level}: checked in ${seconds} s; allowed anomalies: ${counts.join(', ') || 'none'}`)
  for (const { type, text } of verdict.forbidden.slice(0, PRINTED)) {
    log(`${level}: ${type}: ${text}`)
  }
  const directory = process.env['HISTORY_DIR'] ??
    (verdict.forbidden.length > 0 ? tmpdir() : undefined)
  if (directory !== undefined) {
    const file = join(directory, `list-append-${level}.json`)
    await writeFile(file, toElleJson(history))
    log(`${level}: the history is in ${file}`)
  }
  return verdict
}

/**
 * Cuts connections to the database until `over`: at the response to COMMIT, at a random byte of
 * either side, or all at once. Resolves with the number of cuts.
 */
async function cutConnections (
  proxy: Proxy,
  clients: Pick<ListClients, 'finished'>,
  over: AbortSignal,
  random: () => number
): Promise<number> {
  const injected: Injected[] = []
  let all = 0
  while (!over.aborted) {
    const next = clients.finished() + 1 + 10 * random()
    await until(() => over.aborted || clients.finished() >= next)
    // Otherwise the proxy would keep the traffic of the whole run.
    proxy.record()
    const kind = random() < 0.5 ? 'cut' : 'reset'
    const dice = random()
    if (dice < 0.1) {
      proxy.cut(kind === 'cut' ? 'end' : 'reset')
      all++
    } else if (dice < 0.6) {
      const delivered = random() < 0.5 ? 'none' : 'half'
      injected.push(proxy.inject({ kind, side: 'server', after: { tag: 'COMMIT', delivered } }))
    } else {
      const side = random() < 0.5 ? 'client' : 'server'
      const bytes = Math.floor(1500 * random())
      injected.push(proxy.inject({ kind, side, after: { bytes } }))
    }
  }
  return all + injected.filter(({ happened }) => happened).length
}
