/** One node of a Patroni cluster that can be killed and started again. */
import type { ChildProcess } from 'node:child_process'
import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { give } from '../../../scripts/dev/account.ts'
import { freePort } from '../../../scripts/dev/port.ts'
import type { Stage } from '../../../scripts/dev/stage.ts'
import { isAlive, readProcesses } from '../../support/process/processes.ts'
import { until } from '../../support/until.ts'
import { binDirectory, copyShipped, spawnProgram, type Host } from './programs.ts'

/** One node: Patroni and the PostgreSQL that it starts. */
export interface Node {
  readonly name: string
  readonly port: number
  readonly restPort: number
  /** Sends SIGKILL to all of its processes at once, as if the machine had lost power. */
  kill(): Promise<void>
  start(): void
}

/** The password of the superuser. */
export const PASSWORD = 'superuser'

/** Starts a node. The end of the stage kills it. */
export async function startNode (stage: Stage, host: Host, name: string): Promise<Node> {
  const [port, restPort] = [await freePort(), await freePort()]
  const dataDirectory = join(host.directory, name)
  await mkdir(dataDirectory)
  await chmod(dataDirectory, 0o700)
  await give(dataDirectory, host.account)
  const configuration = await copyShipped(host, 'patroni.yml')
  const env = {
    PATRONI_NAME: name,
    PATRONI_RESTAPI_LISTEN: `127.0.0.1:${restPort}`,
    PATRONI_RESTAPI_CONNECT_ADDRESS: `127.0.0.1:${restPort}`,
    PATRONI_POSTGRESQL_LISTEN: `127.0.0.1:${port}`,
    PATRONI_POSTGRESQL_CONNECT_ADDRESS: `127.0.0.1:${port}`,
    PATRONI_POSTGRESQL_DATA_DIR: dataDirectory,
    PATRONI_POSTGRESQL_BIN_DIR: binDirectory as string,
    PATRONI_POSTGRESQL_PGPASS: join(host.directory, `${name}.pgpass`),
    PATRONI_ETCD_HOSTS: `127.0.0.1:${host.etcdPort}`,
    PATRONI_SUPERUSER_USERNAME: 'postgres',
    PATRONI_SUPERUSER_PASSWORD: PASSWORD,
    PATRONI_REPLICATION_USERNAME: 'replicator',
    PATRONI_REPLICATION_PASSWORD: 'replicator'
  }
  let patroni: ChildProcess
  const signal = (name: NodeJS.Signals): readonly number[] =>
    signalNode(patroni.pid as number, dataDirectory, name)
  const kill = async (): Promise<void> => {
    // Nothing of the node reacts to the death of a part of it. Children of a dead process are no
    // longer found.
    const stopped = signal('SIGSTOP')
    for (const pid of stopped.filter(isAlive)) process.kill(pid, 'SIGKILL')
    await until(() => !stopped.some(isAlive))
  }
  const start = (): void => {
    patroni = spawnProgram(host, 'patroni', [configuration], { name, env })
  }
  start()
  stage.teardown(kill)
  // The end of this process by a signal runs no teardown. The postmaster ends its children.
  process.on('exit', () => signal('SIGKILL'))
  return { name, port, restPort, start, kill }
}

/** Sends a signal to Patroni, then to its PostgreSQL, until no process of it is left out. */
function signalNode (patroni: number, dataDirectory: string, name: NodeJS.Signals): number[] {
  const signalled = new Set<number>()
  for (let found = [patroni]; found.length > 0;) {
    for (const pid of found) {
      if (isAlive(pid)) process.kill(pid, name)
      signalled.add(pid)
    }
    found = readProcesses()
      .filter(({ parent, command }) => signalled.has(parent) || command.includes(dataDirectory))
      .map(({ pid }) => pid)
      .filter(pid => !signalled.has(pid))
  }
  return [...signalled]
}
