/**
 * Tests the move of a tenant to another database (docs/operations/scaling.md): two instances are
 * restarted with other routes under load, and psql runs the commands of the page. Every batch of
 * the tenant must be applied exactly once, and other tenants must not notice the move.
 */
import t, { type Test } from 'tap'
import { useDatabase, type Database } from '../support/database/database.ts'
import { makeKeyTable } from '../support/database/key-table.ts'
import { openShell } from '../support/docs/commands.ts'
import { readBlocks, readPage } from '../support/docs/pages.ts'
import { startInstance } from '../support/network/haproxy.ts'
import type { RestartableService } from '../support/process/restartable-service.ts'
import { findProgram, needs } from '../support/process/programs.ts'
import { ask, token, type Answer } from '../support/service.ts'
import { until } from '../support/until.ts'

const psql = findProgram('psql')

const tenantOf = "current_setting('request.jwt.claims', true)::json ->> 'tenant'"
const schema = `
  create table orders (
    tenant text not null default (${tenantOf}), id int generated always as identity,
    note text not null unique, primary key (tenant, id)
  );
  alter table orders enable row level security;
  create policy own on orders using (tenant = ${tenantOf});
  grant all on orders to oneflight_user;`

/** The tenants: `globex` stays in the old database, `initech` is in the new one. */
type Tenant = 'acme' | 'globex' | 'initech'

const authorizations = Object.fromEntries(
  ['acme', 'globex', 'initech'].map(tenant => [
    tenant,
    `Bearer ${token({ role: 'oneflight_user', sub: `user of ${tenant}`, tenant })}`
  ])
)

interface Request {
  readonly tenant: Tenant
  readonly note: string
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

interface Fleet {
  /** Sends a batch that inserts an order to one instance after the other. */
  order(request: Request): Promise<Answer>
  /** Replaces one instance after the other by one with these routes. */
  restart(routes: string): Promise<void>
  metrics(): Promise<string>
}

/**
 * Starts two instances. Like a load balancer, it sends no request to an instance that is stopping.
 */
async function useFleet (t: Test, routes: string): Promise<Fleet> {
  const start = (routes: string): Promise<RestartableService> =>
    startInstance(t, '', {
      DATABASE_ROUTES: routes,
      POOL_SIZE: '2',
      QUEUE_SIZE: '100',
      SHUTDOWN_DELAY_MS: '500'
    })
  const instances = [await start(routes), await start(routes)]
  let turn = 0
  return {
    order: ({ tenant, note, headers = {}, signal }) =>
      ask(instances[turn++ % 2]?.url as string, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          authorization: authorizations[tenant] as string,
          ...headers
        },
        body: JSON.stringify([{ id: 'o', op: 'insert', table: 'orders', values: [{ note }] }]),
        ...signal === undefined ? {} : { signal }
      }),
    async restart (routes) {
      for (const [i, old] of instances.entries()) {
        instances[i] = await start(routes)
        t.equal(await old.end('SIGTERM'), 0)
      }
    },
    metrics: async () => (await ask(`${instances[0]?.adminUrl}/metrics`)).text
  }
}

interface Load {
  /** The response with status 200 of each order. */
  readonly done: ReadonlyMap<string, Answer>
  /** The number of responses by code: `200`, `200 replayed`, `given up`, or that of the error. */
  readonly codes: Readonly<Record<string, number>>
  stop(): Promise<void>
}

/**
 * Starts clients that post one order after the other. With keys, each order is sent until its
 * response forbids a retry, and of every fifth one the client gives up the first request early.
 */
function startClients (
  { order }: Fleet,
  tenant: Tenant,
  { clients, keys }: { readonly clients: number, readonly keys: boolean }
): Load {
  const done = new Map<string, Answer>()
  const codes: Record<string, number> = {}
  const count = (code: string): void => {
    codes[code] = (codes[code] ?? 0) + 1
  }
  const send = async (request: Request): Promise<boolean> => {
    const answer = await order(request)
    const replayed = answer.headers.has('idempotent-replayed') ? ' replayed' : ''
    count(answer.status === 200 ? `200${replayed}` : answer.body.error.code as string)
    if (answer.status === 200) done.set(request.note, answer)
    return answer.body.error?.retryable !== true
  }
  const end = new AbortController()
  let next = 0
  const work = async (): Promise<void> => {
    while (!end.signal.aborted) {
      const note = `${tenant} ${next++}`
      const request = { tenant, note, headers: keys ? keyOf(note) : {} }
      if (keys && next % 5 === 0) {
        const signal = AbortSignal.timeout(next % 4 + 1)
        await order({ ...request, signal }).then(() => {}, () => count('given up'))
      }
      if (keys) await until(() => send(request))
      else await send(request)
    }
  }
  const finished = Promise.all(Array.from({ length: clients }, work))
  return {
    done,
    codes,
    async stop () {
      end.abort()
      await finished
    }
  }
}

const keyOf = (note: string): Record<string, string> => ({
  'idempotency-key': note.replace(' ', '-')
})

/** Stores keys that have these times to live, as an earlier move could have. */
async function storeKeys ({ sql }: Database, hours: Record<string, number>): Promise<void> {
  for (const [key, time] of Object.entries(hours)) {
    await sql`insert into oneflight.idempotency_keys
      values ('someone', ${key}, '', ${[String(time)]}, now(), now() + ${time} * interval '1 h')`
  }
}

const ordersOf = async ({ sql }: Database, tenant: Tenant): Promise<readonly string[]> =>
  (await sql`select note from orders where tenant = ${tenant} order by note`).map(({ note }) =>
    note as string
  )
const notesOf = ({ done }: Load): readonly string[] => [...done.keys()].sort()

t.test(...needs('a tenant moves to another database under load', { psql }), async t => {
  const databases = [await useDatabase(t, { schema }), await useDatabase(t, { schema })] as const
  const [from, to] = databases
  await Promise.all(databases.map(makeKeyTable))
  await storeKeys(from, { older: 1, later: 3 })
  await storeKeys(to, { older: 2, later: 2 })
  const routes = (acme: string): string =>
    `acme=${acme},globex=${from.loginUrl},initech=${to.loginUrl}`
  const paused = from.loginUrl.replace(from.name, 'oneflight_paused')
  const [copy, remove] = readBlocks(readPage('docs/operations/scaling.md'))
    .filter(({ check }) => check?.kind === 'run by')
    .map(({ text }) => text) as [string, string]
  const shell = openShell(t, { OLD: from.url, NEW: to.url })
  const run = async (text: string): Promise<void> => {
    const { code, stderr } = await shell.run(text)
    t.same([code, stderr], [0, ''])
  }

  const fleet = await useFleet(t, routes(from.loginUrl))
  const acme = startClients(fleet, 'acme', { clients: 4, keys: true })
  const others = (['globex', 'initech'] as const).map(tenant =>
    startClients(fleet, tenant, { clients: 1, keys: false })
  )
  const loads = [acme, ...others]
  const progress = (loads: readonly Load[], n: number): Promise<unknown> => {
    const targets = loads.map(({ done }) => done.size + n)
    return until(() => loads.every(({ done }, i) => done.size >= (targets[i] as number)))
  }
  await progress(loads, 100)

  await fleet.restart(routes(paused))
  const before = new Map(acme.done)
  await progress(others, 20)
  t.same(await ordersOf(to, 'acme'), [])
  const host = new URL(from.url).host
  t.match(await fleet.metrics(), `service_route_up{route="${host}/oneflight_paused"} 0\n`)

  await run(copy)
  t.same(
    await to.sql`select key, answer from oneflight.idempotency_keys where principal = 'someone'
      order by 1`,
    [{ key: 'later', answer: ['3'] }, { key: 'older', answer: ['2'] }]
  )
  await progress(others, 20)
  t.equal(acme.done.size, before.size, 'no batch of the tenant runs')

  await fleet.restart(routes(to.loginUrl))
  await progress(loads, 100)
  await run(remove)
  await progress(loads, 20)
  await Promise.all(loads.map(load => load.stop()))
  t.comment(`${before.size} orders before the move; ${JSON.stringify(loads.map(l => l.codes))}`)

  t.same(await ordersOf(to, 'acme'), notesOf(acme), 'nothing is lost or applied twice')
  t.same(await ordersOf(from, 'acme'), [])
  t.same(await ordersOf(from, 'globex'), notesOf(others[0] as Load))
  t.same(await ordersOf(to, 'initech'), notesOf(others[1] as Load))
  const allowed = [
    '200', '200 replayed', 'given up', 'database_unavailable', 'idempotency_key_in_progress'
  ]
  t.same(Object.keys(acme.codes).filter(code => !allowed.includes(code)), [])
  t.ok(Number(acme.codes['database_unavailable']) > 0, 'the tenant is paused')
  for (const { codes } of others) t.same(Object.keys(codes), ['200'], 'other tenants')
  for (const [note, { text }] of [...before].slice(-200)) {
    const again = await fleet.order({ tenant: 'acme', note, headers: keyOf(note) })
    t.equal(again.headers.get('idempotent-replayed'), 'true')
    t.equal(again.text, text, 'the same bytes')
  }
})
