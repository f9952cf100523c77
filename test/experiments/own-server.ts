/**
 * The database that a scenario runs on, on a server of its own, and the role of its batches.
 */
import postgres, { type Sql } from 'postgres'
import type { Stage } from '../../scripts/dev/stage.ts'
import { execute } from '../support/database/execute.ts'
import { makeKeyTable } from '../support/database/key-table.ts'
import {
  useRestartableServer,
  type RestartableServer,
  type ServerSettings
} from '../support/database/restartable-server.ts'
import { grantAll } from '../support/database/roles.ts'
import type { RestartableService } from '../support/process/restartable-service.ts'
import { token } from '../support/environment.ts'

export const ROLE = 'oneflight_user'

export interface OwnServer extends RestartableServer {
  /** The URL of the database for the superuser. */
  readonly url: string
  /** The URL of the database for the service. */
  readonly loginUrl: string
  /** A client of the database, as superuser. */
  readonly sql: Sql
}

/**
 * Starts a server and creates the roles, the database `shop` with `schema`, which the role of the
 * batches may use, and a table of keys.
 */
export async function useServer (
  stage: Stage,
  { schema, settings = {} }: { readonly schema: string, readonly settings?: ServerSettings }
): Promise<OwnServer> {
  const server = await useRestartableServer(stage, settings)
  await execute(
    server.current(),
    `create role oneflight login noinherit password 'login'; create role ${ROLE} nologin;
      grant ${ROLE} to oneflight`,
    'create database shop'
  )
  const url = Object.assign(new URL(server.current().url), { pathname: '/shop' }).href
  await execute({ url }, grantAll(ROLE), schema)
  await makeKeyTable({ url, login: 'oneflight' })
  const sql = postgres(url, { max: 4, onnotice () {} })
  stage.teardown(() => sql.end({ timeout: 1 }))
  const loginUrl = Object.assign(new URL(url), { username: 'oneflight', password: 'login' }).href
  return { ...server, url, loginUrl, sql }
}

/** Returns an Authorization header with a token for the role of the scenarios. */
export function bearer (): string {
  return `Bearer ${token({ role: ROLE, sub: 'harness' })}`
}

/** Returns the sum of the samples of a metric whose line contains `labels`; 0 if there are none. */
export async function readMetric (
  { adminUrl }: Pick<RestartableService, 'adminUrl'>,
  name: string,
  labels = ''
): Promise<number> {
  const response = await fetch(`${adminUrl}/metrics`, { headers: { connection: 'close' } })
  const lines = (await response.text()).split('\n')
  return lines.filter(line => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter(line => line.includes(labels))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}
