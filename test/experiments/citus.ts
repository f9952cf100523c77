/**
 * The citus scenario: kills the workers and the coordinator of a Citus cluster while clients
 * transfer money between tenants, on one worker and over two, and while readers look for rows of
 * other tenants. Afterwards the audit of the storm scenario checks the responses.
 *
 * It needs CITUS_URL, the URL of a superuser on a coordinator whose servers all run on this
 * machine, and is run only by its name: its servers are killed and started again.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Stage } from '../../scripts/dev/stage.ts'
import { useCitusDatabase } from '../support/database/citus.ts'
import { makeKeyTable } from '../support/database/key-table.ts'
import { useRestartableService } from '../support/process/restartable-service.ts'
import { until } from '../support/until.ts'
import { copyForAudit, countOverTwoWorkers, makeCitusBatch, schema } from './citus/bank.ts'
import { findCitusNodes, type CitusNode } from './citus/nodes.ts'
import { startReaders, type Readings } from './citus/readers.ts'
import { startCrowd, type Crowd, type Observations } from './crowd.ts'
import { audit, replay } from './invariants.ts'
import { shuffle } from './killers.ts'
import { createPoster } from './poster.ts'
import { createQueryClient, withTimeout, type QueryClient } from './query-client.ts'
import {
  figureFor,
  seeded,
  type Figure,
  type Scenario,
  type ScenarioOptions
} from './scenario.ts'

const figure = figureFor(1)

/** Kinds of kills, by the places of the killed servers in the list of nodes. */
const kinds = {
  'SIGKILL of worker 1': [1],
  'SIGKILL of worker 2': [2],
  'SIGKILL of the coordinator': [0],
  'SIGKILL of a worker and the coordinator': [0, 1]
} as const
type Kind = keyof typeof kinds

const forms = {
  long: { batches: 10_000, kills: 8, clients: 16 },
  short: { batches: 300, kills: 1, clients: 8 }
} as const

const READERS = 4

/** Parts of a transaction wait on a killed worker until Citus recovers them, after a minute. */
const REPEAT_MS = 150_000

export const citus: Scenario = {
  name: 'citus',
  isSpecial: true,
  server: describeServer,
  run: runScenario
}

async function describeServer (): Promise<string> {
  const client = createQueryClient(process.env['CITUS_URL'] as string)
  const [row] = await client.query(
    "select current_setting('server_version') as server, citus_version() as version"
  )
  client.close()
  const { server, version } = row as unknown as Record<'server' | 'version', string>
  return `${server.split(' ')[0]} with ${version.split(' ').slice(0, 2).join(' ')}`
}

async function runScenario (
  stage: Stage,
  { long, random, log }: ScenarioOptions
): Promise<readonly Figure[]> {
  const form = forms[long ? 'long' : 'short']
  const database = await useCitusDatabase(stage, { schema })
  await makeKeyTable(database)
  const nodes = await findCitusNodes(database.url)
  const service = await useRestartableService(stage, {
    DATABASE_URL: database.loginUrl,
    POOL_SIZE: '16',
    LOG_LEVEL: 'fatal'
  })
  const crowd = startCrowd({
    url: service.url,
    clients: form.clients,
    batches: form.batches,
    keepOneOf: 50,
    random: seeded(random() * 2 ** 32),
    createBatch: makeCitusBatch,
    repeatMs: REPEAT_MS,
    unkeyedOneOf: 2
  })
  stage.teardown(() => crowd.stop())
  const readers = startReaders(service.url, READERS)
  const killed = await killNodes({ nodes, crowd, log }, { ...form, random })
  await crowd.end()
  await readers.stop()
  log(JSON.stringify({ ...crowd.observed.responses, readers: readers.readings }))
  for (const refusal of crowd.observed.refusals) log(`a batch with a key was rejected: ${refusal}`)

  const client = createQueryClient(database.url)
  stage.teardown(() => client.close())
  const prepared = await recoverPrepared(client)
  const poster = createPoster(service.url, 8)
  stage.teardown(() => poster.close())
  const replayed = await replay(poster, crowd.observed)
  await client.query(copyForAudit, 60_000)
  const [overTwo] = await client.query(countOverTwoWorkers)
  const copies = createQueryClient(`${database.url}?search_path=audit`)
  stage.teardown(() => copies.close())
  return [
    figure('batches', crowd.finished(), { atLeast: form.batches }),
    figure('committed batches over two workers', overTwo?.['count'] as number, { atLeast: 1 }),
    ...[...killed].map(([kind, count]) => figure(kind, count, { atLeast: form.kills })),
    ...await audit(copies, crowd.observed),
    ...replayed,
    ...describeResponses(crowd.observed),
    ...describeReadings(readers.readings),
    figure('prepared transactions left after recovery', prepared, { exactly: 0 }),
    figure('unexpected exits of the service', service.crashes.length, { exactly: 0 })
  ]
}

interface Targets {
  readonly nodes: readonly CitusNode[]
  readonly crowd: Pick<Crowd, 'finished' | 'next'>
  readonly log: (text: string) => void
}

interface Plan {
  readonly batches: number
  /** The number of kills of each kind. */
  readonly kills: number
  readonly random: () => number
}

/** Kills and restarts servers, spread over the batches. Returns the number of kills by kind. */
async function killNodes (
  { nodes, crowd, log }: Targets,
  { batches, kills, random }: Plan
): Promise<ReadonlyMap<Kind, number>> {
  const counts = new Map<Kind, number>()
  const all = Object.keys(kinds) as Kind[]
  const sequence = shuffle(Array.from({ length: kills }, () => all).flat(), random)
  for (const [i, kind] of sequence.entries()) {
    await until(() => crowd.finished() >= batches * (i + 1) / (sequence.length + 1))
    const chosen = kinds[kind].map(place => nodes[place] as CitusNode)
    await Promise.all(chosen.map(node => node.kill()))
    // Clients meet the cluster without these servers.
    await delay(500 + 2000 * random())
    await Promise.all(chosen.map(node => node.start()))
    await withTimeout(crowd.next(), REPEAT_MS, `no batch was committed after: ${kind}`)
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
    log(`${kind}, after ${crowd.finished()} batches`)
  }
  return counts
}

/** Lets Citus finish transactions that a kill interrupted. Returns how many it could not. */
async function recoverPrepared (client: QueryClient): Promise<number> {
  await client.query('select recover_prepared_transactions()')
  const rows = await client.query(
    "select result from run_command_on_workers('select count(*) from pg_prepared_xacts')"
  )
  return rows.reduce((sum, { result }) => sum + Number(result), 0)
}

function describeResponses ({ unkeyed, responses }: Observations): readonly Figure[] {
  const count = (counts: Readonly<Record<string, number>>): number =>
    Object.values(counts).reduce((sum, value) => sum + value, 0)
  return [
    figure('requests', count(responses)),
    figure('batches without a key', count(unkeyed)),
    figure('of these, answered commit_unknown', unkeyed['commit_unknown'] ?? 0)
  ]
}

function describeReadings ({ answered, own, foreign, refused }: Readings): readonly Figure[] {
  return [
    figure('batches of readers answered 200', answered, { atLeast: 1 }),
    figure('batches of readers answered otherwise', refused),
    figure('rows of their own tenant', own, { atLeast: 1 }),
    figure('rows of other tenants, returned or changed', foreign, { exactly: 0 })
  ]
}
