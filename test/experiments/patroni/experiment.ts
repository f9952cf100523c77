/**
 * One experiment on a Patroni cluster: clients transfer money through the service, all processes of
 * the leader die at once, another node is promoted, the old leader returns. Afterwards every
 * response is compared with the database.
 */
import { onStage, type Stage } from '../../../scripts/dev/stage.ts'
import { execute } from '../../support/database/execute.ts'
import { makeKeyTable } from '../../support/database/key-table.ts'
import { grantAll } from '../../support/database/roles.ts'
import {
  useRestartableService,
  type RestartableService
} from '../../support/process/restartable-service.ts'
import { until } from '../../support/until.ts'
import { schema } from '../bank.ts'
import { startCrowd, type Crowd, type Observations } from '../crowd.ts'
import { audit, replay } from '../invariants.ts'
import { ROLE } from '../own-server.ts'
import { createPoster } from '../poster.ts'
import { createQueryClient, withTimeout, type QueryClient } from '../query-client.ts'
import { isReached, type Figure } from '../scenario.ts'
import { RECOVERY_MS, type Cluster } from './cluster.ts'
import type { Node } from './node.ts'

export interface Experiment {
  /** How the service finds the leader: three hosts in DATABASE_URL, or haproxy. */
  readonly route: 'hosts' | 'haproxy'
  readonly synchronous: boolean
}

export interface Result extends Experiment {
  /** Batches with a key. Each is repeated until its response is 200. */
  readonly keyed: number
  /** Batches without a key. Each is sent once. */
  readonly unkeyed: number
  /** Batches without a key whose outcome the client does not know. */
  readonly unknown: number
  /** Batches answered 200 that are not in the database afterwards. */
  readonly lost: number
  /** The broken promises, in words. */
  readonly violations: readonly string[]
  /** Milliseconds from the fault to the promotion of another node. */
  readonly promotedMs: number
  /** Milliseconds from the promotion to the first response with status 200. */
  readonly servedMs: number
}

const CLIENTS = 24

const LOGIN_PASSWORD = 'login'

/** Batches before the fault, and after the return of the old leader. */
const BATCHES = 300

const LOST = 'batches answered 200 but not in the database'

/** Runs an experiment in a new database with this name. */
export function runExperiment (
  cluster: Cluster,
  experiment: Experiment,
  { database, random }: { readonly database: string, readonly random: () => number }
): Promise<Result> {
  return onStage(stage => run(stage, { cluster, experiment, database, random }))
}

interface Setting {
  readonly cluster: Cluster
  readonly experiment: Experiment
  readonly database: string
  readonly random: () => number
}

async function run (
  stage: Stage,
  { cluster, experiment, database, random }: Setting
): Promise<Result> {
  const { route, synchronous } = experiment
  await cluster.setSynchronous(synchronous)
  await createDatabase(cluster, database)
  const service = await useRestartableService(stage, {
    DATABASE_URL: serviceUrl(cluster, route, database),
    LOG_LEVEL: 'fatal'
  })
  const crowd = startCrowd({
    url: service.url,
    clients: CLIENTS,
    batches: BATCHES,
    keepOneOf: 20,
    repeatMs: 2 * RECOVERY_MS,
    random
  })
  stage.teardown(() => crowd.stop())
  await finishMore(crowd)
  const leader = await until(cluster.leader)
  const times = await killLeader(leader, { cluster, crowd })
  await cluster.complete()
  await finishMore(crowd)
  await crowd.end()
  const client = createQueryClient(await cluster.superuserUrl(database))
  stage.teardown(() => client.close())
  const { observed } = crowd
  const judged = await judge(stage, experiment, { client, service, observed })
  return { ...experiment, ...times, ...judged }
}

/** Waits until clients have finished BATCHES more batches. */
async function finishMore (crowd: Crowd): Promise<void> {
  const finished = crowd.finished() + BATCHES
  await withTimeout(until(() => crowd.finished() >= finished), RECOVERY_MS, 'nothing is committed')
}

type Times = Pick<Result, 'promotedMs' | 'servedMs'>

interface Running {
  readonly cluster: Cluster
  readonly crowd: Crowd
}

/** Resolves when another node leads, batches are committed again, and the old leader starts. */
async function killLeader (leader: Node, { cluster, crowd }: Running): Promise<Times> {
  const start = performance.now()
  await leader.kill()
  const isPromoted = async (): Promise<boolean> => {
    const now = await cluster.leader()
    return now !== undefined && now !== leader
  }
  await withTimeout(until(isPromoted), RECOVERY_MS, 'no other node was promoted')
  const promoted = performance.now()
  const served = await withTimeout(crowd.next(), RECOVERY_MS, 'no batch was committed')
  leader.start()
  return { promotedMs: promoted - start, servedMs: served - promoted }
}

interface Judged {
  readonly client: QueryClient
  readonly service: RestartableService
  readonly observed: Observations
}

/** Compares the responses with the database. */
async function judge (
  stage: Stage,
  { synchronous }: Experiment,
  { client, service, observed }: Judged
): Promise<Omit<Result, keyof Experiment | keyof Times>> {
  const figures = await audit(client, observed)
  const lost = figures.find(({ name }) => name === LOST)?.value ?? 0
  // A batch that was lost would run again.
  const repeated = lost > 0 ? [] : await repeatKept(stage, service, observed)
  // With asynchronous replication PostgreSQL itself loses commits when a leader fails.
  const missed = [...figures, ...repeated].filter(figure => !isReached(figure))
    .filter(({ name }) => name !== LOST || synchronous)
  const unkeyed = Object.values(observed.unkeyed).reduce((sum, count) => sum + count, 0)
  return {
    keyed: observed.known.length - unkeyed,
    unkeyed,
    unknown: observed.known.filter(outcome => outcome === 'unknown').length,
    lost,
    violations: [...missed.map(({ name, value }) => `${name}: ${value}`), ...service.crashes]
  }
}

function repeatKept (
  stage: Stage,
  { url }: RestartableService,
  observed: Observations
): Promise<readonly Figure[]> {
  const poster = createPoster(url, 8)
  stage.teardown(() => poster.close())
  return replay(poster, observed)
}

async function createDatabase (cluster: Cluster, database: string): Promise<void> {
  await execute(
    { url: await cluster.superuserUrl('postgres') },
    `do $$ begin
      if to_regrole('oneflight') is null then
        create role ${ROLE} nologin;
        create role oneflight login noinherit password '${LOGIN_PASSWORD}';
        grant ${ROLE} to oneflight;
      end if;
    end $$`,
    `create database ${database}`
  )
  const url = await cluster.superuserUrl(database)
  await execute({ url }, grantAll(ROLE), schema)
  await makeKeyTable({ url, login: 'oneflight' })
}

function serviceUrl (
  { nodes, balancerPort }: Cluster,
  route: Experiment['route'],
  database: string
): string {
  const login = `postgres://oneflight:${LOGIN_PASSWORD}@`
  if (route === 'haproxy') return `${login}127.0.0.1:${balancerPort}/${database}`
  const hosts = nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')
  return `${login}${hosts}/${database}?target_session_attrs=primary&connect_timeout=2`
}
