/**
 * A PostgreSQL cluster for the test suite: the one it is given, else a container, else the embedded
 * server.
 *
 * In charge of: choosing one and ending what it started.
 * Refuses to: prepare databases or roles (database.ts does), or to touch a given cluster.
 */
import { availableMajors, startPostgres } from '../../../src/dev/postgres.ts'

export interface Cluster {
  /** A superuser's connection string. */
  readonly url: string
  readonly kind: 'given' | 'container' | 'embedded'
  stop(): Promise<void>
}

/**
 * Nothing here has to survive a crash, so nothing waits for the disk; many test files connect at
 * once.
 */
const settings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: 300,
  max_prepared_transactions: 0,
  shared_buffers: '64MB'
}

/**
 * TEST_DATABASE_URL when set; else a container when an engine answers, unless PG_MAJOR asks for an
 * embedded server of that major; else the embedded server. `major` defaults to PG_MAJOR, then to
 * the newest one installed.
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
  // no engine: known after 2 ms
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
  const { url, stop } = await startPostgres({ major, settings })
  return { url, kind: 'embedded', stop }
}
