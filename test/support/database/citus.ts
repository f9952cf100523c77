/**
 * Creates databases on the Citus cluster whose coordinator CITUS_URL names, as superuser. The
 * workers are those of the database in the URL.
 */
import postgres from 'postgres'
import type { Stage } from '../../../scripts/dev/stage.ts'
import { createRoles, urlOn, type Database } from './database.ts'
import { execute } from './execute.ts'
import { LOGIN_ROLE, TEST_ROLES } from './roles.ts'

export const needsCitus = {
  skip: process.env['CITUS_URL'] ? false : 'CITUS_URL is not set: no Citus to test with'
}

/** The coordinator comes first. */
type Nodes = readonly [URL, ...URL[]]

/**
 * Creates a database with `schema` on all nodes. The end of `t` drops it. The roles of the tests
 * can log in there, because Citus connects to its workers as the role of the batch.
 */
export async function useCitusDatabase (
  t: Stage,
  { schema }: { readonly schema: string }
): Promise<Database> {
  const name = `oneflight_citus_${process.pid}_${Date.now().toString(36)}`
  const nodes = await findNodes()
  const everywhere = (statement: string, database?: string): Promise<unknown> =>
    Promise.all(nodes.map(node =>
      execute({ url: database === undefined ? node.href : urlOn(node, database) }, statement)))
  await everywhere(`create database ${name}`)
  t.teardown(() => everywhere(`drop database ${name} with (force)`))
  await everywhere('create extension citus', name)
  const [coordinator, ...workers] = nodes
  const url = urlOn(coordinator, name)
  const sql = postgres(url, { max: 4, onnotice () {} })
  t.teardown(() => sql.end({ timeout: 1 }))
  await sql`select citus_set_coordinator_host(${coordinator.hostname}, ${portOf(coordinator)})`
  for (const worker of workers) {
    await sql`select citus_add_node(${worker.hostname}, ${portOf(worker)})`
  }
  // Citus creates roles on its workers as well.
  await createRoles(sql, TEST_ROLES, 'login')
  // Citus sends the text of a command to its workers, with all that was sent along with it.
  for (const statement of splitStatements(schema)) await sql.unsafe(statement)
  return { name, url, loginUrl: urlOn(coordinator, name, LOGIN_ROLE, 'login'), sql }
}

/** Statements end at the end of a line, but not within a body in dollar quotes. */
function splitStatements (text: string): readonly string[] {
  const statements = ['']
  let quoted = false
  for (const line of text.split('\n')) {
    statements.push(`${statements.pop() ?? ''}${line}\n`)
    if (line.split('$$').length % 2 === 0) quoted = !quoted
    if (!quoted && line.endsWith(';')) statements.push('')
  }
  return statements.filter(statement => statement.trim() !== '')
}

async function findNodes (): Promise<Nodes> {
  const coordinator = new URL(process.env['CITUS_URL'] as string)
  const rows = await execute(
    { url: coordinator.href },
    'select nodename, nodeport from pg_dist_node where groupid > 0 order by nodeid'
  )
  const workers = rows.map(({ nodename, nodeport }) =>
    Object.assign(new URL(coordinator), { hostname: nodename, port: String(nodeport) }))
  return [coordinator, ...workers]
}

function portOf ({ port }: URL): number {
  return Number(port || 5432)
}
