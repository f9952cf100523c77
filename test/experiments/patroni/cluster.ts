/**
 * Starts a Patroni cluster on 127.0.0.1: etcd, three nodes with the shipped patroni.yml, and
 * haproxy with the shipped haproxy.cfg. The data are temporary.
 */
import type { ChildProcess } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { give, scratchDirectory, serverAccount } from '../../../scripts/dev/account.ts'
import { freePort } from '../../../scripts/dev/port.ts'
import type { Stage } from '../../../scripts/dev/stage.ts'
import { until } from '../../support/until.ts'
import { PASSWORD, startNode, type Node } from './node.ts'
import { copyShipped, spawnProgram, type Host } from './programs.ts'

/** How long the cluster may take to promote a node, or to be complete again. */
export const RECOVERY_MS = 180_000

export interface Cluster {
  readonly nodes: readonly Node[]
  /** Port of haproxy that leads to the leader. */
  readonly balancerPort: number
  /** URL of a database of the leader for the superuser. */
  superuserUrl(database: string): Promise<string>
  /** The node that is the leader and accepts writes; undefined if none does. */
  leader(): Promise<Node | undefined>
  /** Waits until two standbys follow the leader. */
  complete(): Promise<void>
  /** Sets `synchronous_mode` and waits until it is in effect. */
  setSynchronous(synchronous: boolean): Promise<void>
}

/** Starts the cluster. The end of the stage kills it and deletes its data. */
export async function startCluster (stage: Stage): Promise<Cluster> {
  const account = serverAccount()
  const directory = await mkdtemp(join(await scratchDirectory(account), 'oneflight-patroni-'))
  await give(directory, account)
  stage.teardown(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))
  const host = { account, directory, etcdPort: await freePort() }
  await startEtcd(stage, host)
  const nodes: Node[] = []
  for (const name of ['db1', 'db2', 'db3']) nodes.push(await startNode(stage, host, name))
  const cluster = describeCluster(nodes, await startBalancer(stage, host, nodes))
  await cluster.complete()
  return cluster
}

async function startEtcd (stage: Stage, host: Host): Promise<void> {
  const client = `http://127.0.0.1:${host.etcdPort}`
  const peer = `http://127.0.0.1:${await freePort()}`
  const etcd = spawnProgram(host, 'etcd', [
    `--data-dir=${join(host.directory, 'etcd')}`,
    // Patroni before 3.0.3 takes a lost lock back through the v3 API (patroni/patroni #2693).
    '--enable-v2',
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`
  ])
  killAtEnd(stage, etcd)
  await until(() => responds(`${client}/health`))
}

/** Starts haproxy with the addresses of the nodes. Resolves with the port of the leader. */
async function startBalancer (stage: Stage, host: Host, nodes: readonly Node[]): Promise<number> {
  const [primaryPort, standbyPort] = [await freePort(), await freePort()]
  const file = await copyShipped(host, 'haproxy.cfg', text =>
    nodes.reduce(
      (changed, { name, port, restPort }) =>
        changed.replaceAll(` ${name}:5432`, ` 127.0.0.1:${port} port ${restPort}`),
      text.replace('bind :5000', `bind 127.0.0.1:${primaryPort}`)
        .replace('bind :5001', `bind 127.0.0.1:${standbyPort}`)
    ))
  const haproxy = spawnProgram(host, 'haproxy', ['-f', file])
  killAtEnd(stage, haproxy)
  return primaryPort
}

function killAtEnd (stage: Stage, child: ChildProcess): void {
  const kill = (): boolean => child.kill('SIGKILL')
  stage.teardown(kill)
  process.on('exit', kill)
}

function describeCluster (nodes: readonly Node[], balancerPort: number): Cluster {
  const leader = async (): Promise<Node | undefined> => {
    const answers = nodes.map(async node => {
      if (!await responds(at(node, 'primary'))) throw new Error('not the leader')
      return node
    })
    // A node that does not answer does not delay the answer of the leader.
    return await Promise.any(answers).catch(() => undefined)
  }
  /** Waits until two standbys follow the leader; in the given mode of replication, if any. */
  const complete = async (synchronous?: boolean): Promise<void> => {
    const deadline = performance.now() + RECOVERY_MS
    await until(async () => {
      const members = await readMembers(await leader())
      if (performance.now() > deadline) {
        throw new Error(`the cluster is not complete: ${JSON.stringify(members)}`)
      }
      return isComplete(members, synchronous)
    })
  }
  const setMode = async (synchronous: boolean): Promise<void> => {
    await send(await until(leader), 'PATCH', 'config', { synchronous_mode: synchronous })
    await complete(synchronous)
  }
  return {
    nodes,
    balancerPort,
    superuserUrl: async database =>
      `postgres://postgres:${PASSWORD}@127.0.0.1:${(await until(leader)).port}/${database}`,
    leader,
    complete: () => complete(),
    async setSynchronous (synchronous) {
      // Also when it is on already: a leader that continued can have lost its synchronous standby.
      await setMode(false)
      if (synchronous) await setMode(true)
    }
  }
}

/** Bytes that a standby may be behind while clients write. A diverged one has the lag `unknown`. */
const MAX_LAG = 1_000_000

interface Member {
  readonly role: string
  readonly state: string
  readonly timeline?: number
  readonly lag?: number | string
}

async function readMembers (node: Node | undefined): Promise<readonly Member[]> {
  if (node === undefined) return []
  const response = await ask(at(node, 'cluster'))
  if (response === undefined) return []
  return (JSON.parse(response.text) as { members: Member[] }).members
}

function isComplete (members: readonly Member[], synchronous: boolean | undefined): boolean {
  const leader = members.find(({ role }) => role === 'leader')
  const standbys = members.filter(member => member !== leader)
  const isSynchronous = standbys.some(({ role }) => role === 'sync_standby')
  return leader !== undefined && standbys.length === 2 &&
    // A server that still has commits of its own has another timeline, and no lag.
    standbys.every(({ state, lag, timeline }) =>
      state === 'running' && Number(lag) < MAX_LAG && timeline === leader.timeline
    ) &&
    [undefined, isSynchronous].includes(synchronous)
}

const at = ({ restPort }: Node, path: string): string => `http://127.0.0.1:${restPort}/${path}`

/** Undefined: no response within two seconds. */
async function ask (url: string): Promise<{ status: number, text: string } | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) })
    return { status: response.status, text: await response.text() }
  } catch {
    return undefined
  }
}

async function responds (url: string): Promise<boolean> {
  return (await ask(url))?.status === 200
}

/** Sends a request to the REST API of a node. Throws with its response if it is refused. */
async function send (node: Node, method: string, path: string, body: object): Promise<void> {
  const response = await fetch(at(node, path), { method, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
}
