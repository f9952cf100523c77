/**
 * Provides the PostgreSQL server of a test run: the given one, else a container, else the embedded
 * server. It stops what it started; database.ts creates databases and roles.
 */
import { statfs } from 'node:fs/promises'
import { availableMajors, startPostgres } from '../../../scripts/dev/postgres.ts'

export interface Cluster {
  /** A superuser's connection string. */
  readonly url: string
  readonly kind: 'given' | 'container' | 'embedded'
  stop(): Promise<void>
}

/** A crash may lose everything, so nothing waits for the disk. Many test files connect at once. */
const settings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: 300,
  max_prepared_transactions: 0,
  max_wal_size: '256MB', // the data directory may be in memory
  shared_buffers: '64MB'
}

/**
 * Uses TEST_DATABASE_URL when it is set. Otherwise it starts a container when an engine answers and
 * PG_MAJOR is not set, else the embedded server. `major` defaults to PG_MAJOR, then to the newest
 * version installed.
 */
export async function provideCluster (
  { major }: { readonly major?: number } = {}
): Promise<Cluster> {
  const given = process.env['TEST_DATABASE_URL']
  if (given) return { url: given, kind: 'given', stop: async () => {} }
  const asked = process.env['PG_MAJOR']
  const wanted = major ?? (Number(asked) || availableMajors().at(-1) || 18)
  return (asked ? undefined : await container(wanted)) ?? embedded(wanted)
}

async function container (major: number): Promise<Cluster | undefined> {
  const { getContainerRuntimeClient } = await import('testcontainers')
  // fails within 2 ms when there is no engine
  const engine = await getContainerRuntimeClient().catch(() => undefined)
  if (engine === undefined) return undefined
  try {
    const { PostgreSqlContainer } = await import('@testcontainers/postgresql')
    const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const started = await new PostgreSqlContainer(`postgres:${major}-alpine`).withUsername(
      'postgres'
    ).withDatabase('postgres').withCommand(['postgres', ...options]).start()
    return {
      url: started.getConnectionUri(),
      kind: 'container',
      stop: async () => {
        await started.stop()
      }
    }
  } catch (error) {
    console.error(
      `# a container engine answers, but postgres:${major}-alpine does not start (${
        (error as Error).message
      }): using the embedded server`
    )
    return undefined
  }
}

async function embedded (major: number): Promise<Cluster> {
  const memory = await memoryDirectory()
  const { url, stop } = await startPostgres({
    major,
    settings,
    ...memory === undefined ? {} : { temporaryIn: memory }
  })
  return { url, kind: 'embedded', stop }
}

/**
 * Linux's directory in memory, when it has room. Every test runs CREATE DATABASE: it takes 14 ms of
 * processor time in memory and 100 to 350 ms on ext4.
 */
async function memoryDirectory (): Promise<string | undefined> {
  const path = '/dev/shm'
  const { bavail, bsize } = await statfs(path).catch(() => ({ bavail: 0, bsize: 0 }))
  return bavail * bsize > 4 * 2 ** 30 ? path : undefined
}
