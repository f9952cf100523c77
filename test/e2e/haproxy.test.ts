/**
 * Three instances behind haproxy with the shipped configuration: one is killed and one is stopped
 * under load, and every batch is applied exactly once; a stop in order is not noticed at all; what
 * haproxy answers by itself has the envelope of the service.
 */
import { readFileSync } from 'node:fs'
import { Value } from '@sinclair/typebox/value'
import t from 'tap'
import { ErrorEnvelope } from '../../schemas/error.ts'
import { configItems } from '../../schemas/config.ts'
import { useDatabase } from '../support/database/database.ts'
import { haproxy, startBalancer, startInstance, type Balancer } from '../support/network/haproxy.ts'
import { needs } from '../support/process/programs.ts'
import { ask, makeKeyTable, token, type Answer } from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = `
  create table moves (id int not null);
  create view pause as select pg_sleep(0.004)::text as slept;
  grant all on all tables in schema public to oneflight_user;`

const authorization = `Bearer ${token({ role: 'oneflight_user', sub: 'client' })}`

/** Undefined: the connection ended before the answer, which means that nobody knows. */
async function post (
  url: string,
  batch: readonly object[],
  headers: Readonly<Record<string, string>> = {}
): Promise<Answer | undefined> {
  return await ask(url, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(batch)
  }).catch(() => undefined)
}

const move = (
  id: number
): object[] => [{ id: 'm', op: 'insert', table: 'moves', values: [{ id }] }, {
  id: 'p',
  op: 'select',
  table: 'pause'
}]

/** By what the answer says itself. */
const mayBeSentAgain = ({ body }: Answer): boolean =>
  Value.Check(ErrorEnvelope, body) &&
  (body.error.committed === 'unknown' || body.error.retryable === true)

interface Load {
  /**
   * How many requests were answered how: `200`, `200 replayed`, the code of the error, or `none`.
   */
  readonly answers: Readonly<Record<string, number>>
  /** Batches with a final answer. */
  readonly done: ReadonlySet<number>
  stop(): Promise<number>
}

/**
 * Clients that keep their connections and send a batch until it is answered 200, with a key, which
 * begins with `name`. What is answered else, and may not be sent again, is `wrong`.
 */
function startClients (balancer: Balancer, clients: number, wrong: unknown[], name = 'move'): Load {
  const answers: Record<string, number> = {}
  const done = new Set<number>()
  const end = new AbortController()
  let next = 0
  const work = async (): Promise<void> => {
    while (!end.signal.aborted) {
      const id = next++
      await until(async () => {
        const answer = await post(balancer.url, move(id), {
          connection: 'keep-alive',
          'idempotency-key': `${name}-${id}`
        })
        const code = answer === undefined
          ? 'none'
          : answer.status === 200
            ? `200${answer.headers.has('idempotent-replayed') ? ' replayed' : ''}`
            : String(answer.body?.error?.code)
        answers[code] = (answers[code] ?? 0) + 1
        if (answer !== undefined && answer.status !== 200 && !mayBeSentAgain(answer)) {
          wrong.push(answer.text)
        }
        return answer?.status === 200
      })
      done.add(id)
    }
  }
  const all = Promise.all(Array.from({ length: clients }, work))
  return {
    answers,
    done,
    async stop () {
      end.abort()
      await all
      return next
    }
  }
}

const further = async (load: Load, n: number): Promise<void> => {
  const before = load.done.size
  await until(() => load.done.size >= before + n)
}

t.test(...needs('one instance is killed and one is stopped under load', { haproxy }), async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const instances = await Promise.all(
    Array.from({ length: 3 }, () => startInstance(t, database.loginUrl, { LOG_LEVEL: 'info' }))
  )
  const [killed, stopped] = instances
  const balancer = await startBalancer(t, instances)
  const wrong: unknown[] = []
  const load = startClients(balancer, 12, wrong)
  await further(load, 600)

  await stopped?.end('SIGTERM')
  t.equal(stopped?.child.exitCode, 0)
  const calm = { ...load.answers }
  await until(async () => (await balancer.states())['oneflight-2'] === 'DOWN')
  await further(load, 300)
  await killed?.end('SIGKILL')
  await until(async () => (await balancer.states())['oneflight-1'] === 'DOWN')
  await further(load, 300)
  const sent = await load.stop()

  t.comment(
    `${sent} batches; a stop in order: ${JSON.stringify(calm)}; then SIGKILL: ${
      JSON.stringify(load.answers)
    }`
  )
  t.same(Object.keys(calm), ['200'], 'of the instance that was stopped nobody noticed anything')
  t.same(wrong, [], 'what was not answered 200 may be sent again')
  t.same(
    await database.sql`select id, count(*)::int as n from moves group by id having count(*) <> 1`,
    [],
    'none was applied twice'
  )
  t.same(await database.sql`select count(*)::int as n from moves`, [{ n: sent }], 'none is missing')
  const served = instances.map(({ output }) =>
    output().split('\n').filter(line => line.includes('"request completed"')).length
  )
  t.ok(served.every(n => n > 100), `each has served: ${served.join(', ')}`)
})

t.test(...needs('a rolling restart is not noticed', { haproxy }), async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const [first, second] = await Promise.all([
    startInstance(t, database.loginUrl),
    startInstance(t, database.loginUrl)
  ])
  // One keeps its connections to instances, the other makes one for each request: those that the
  // system has taken for an instance that is about to end.
  const balancers = [
    await startBalancer(t, [first, second, first]),
    await startBalancer(
      t,
      [first, second, first],
      config => config.replace(/^ +mode http$/m, '$&\n  option http-server-close')
    )
  ]
  const loads = balancers.map((balancer, i) => startClients(balancer, 6, [], `client-${i}`))
  const state = (name: string): Promise<unknown> =>
    Promise.all(
      balancers.map(balancer =>
        until(async () => (await balancer.states())['oneflight-2'] === name)
      )
    )
  const everyFurther = (n: number): Promise<unknown> =>
    Promise.all(loads.map(load => further(load, n)))
  await everyFurther(200)
  // It comes back at its old address.
  const { port } = new URL(second.url)
  const adminPort = new URL(second.adminUrl).port
  await second.end('SIGTERM')
  await state('DOWN')
  await startInstance(t, database.loginUrl, { HTTP_PORT: port, ADMIN_HTTP_PORT: adminPort })
  await state('UP')
  await everyFurther(200)
  for (const load of loads) t.same({ 200: await load.stop() }, load.answers)
})

t.test(...needs('answers of haproxy itself', { haproxy }), async t => {
  const database = await useDatabase(t, { schema })
  const instance = await startInstance(t, database.loginUrl)
  const balancer = await startBalancer(t, [instance, instance, instance])
  const nap = [{ id: 'm', op: 'insert', table: 'moves', values: [{ id: 1 }] }, {
    id: 'p',
    op: 'select',
    table: 'nap'
  }]
  await database.sql`create view nap as select pg_sleep(60)::text as slept`
  await database.sql`grant select on nap to oneflight_user`

  await t.test('the request id is passed through, or made', async t => {
    const given = await post(balancer.url, move(0), { 'x-request-id': 'order-17' })
    t.match([given?.status, given?.headers.get('x-request-id')], [200, 'order-17'])
    const unsafe = await post(balancer.url, move(0), { 'x-request-id': 'order "17"' })
    const id = unsafe?.headers.get('x-request-id')
    t.match(id, /^[0-9a-f-]{36}$/)
    await until(() => balancer.output().includes(`"request_id":"${id}"`))
    // The same in both logs.
    await until(() => instance.output().includes(`"request_id":"${id}"`))
    const refused = await post(balancer.url, [])
    t.match(refused?.body.error, {
      code: 'body_empty',
      request_id: refused?.headers.get('x-request-id')
    })
  })

  await t.test('an answer of the service stays as it is', async t => {
    await database.sql.unsafe(`
      create function choose() returns trigger language plpgsql as $$
        begin raise exception sqlstate 'PT502' using message = 'chosen'; end $$;
      create table chosen (id int); grant all on chosen to oneflight_user;
      create trigger choose before insert on chosen for each row execute function choose()`)
    t.match(
      await post(balancer.url, [{ id: 'c', op: 'insert', table: 'chosen', values: [{ id: 1 }] }]),
      { status: 502, body: { error: { message: 'chosen', committed: false } } }
    )
  })

  await t.test('the instance dies with the batch', async t => {
    const answer = post(balancer.url, nap, { 'x-request-id': 'lost' })
    await until(async () =>
      (await database
        .sql`select from pg_stat_activity where datname = ${database.name}
          and wait_event = 'PgSleep'`)
        .length === 1
    )
    await instance.end('SIGKILL')
    const told = await answer
    t.match(told, {
      status: 500,
      body: {
        error: { code: 'commit_unknown', committed: 'unknown', request_id: 'lost' },
        data: null
      }
    })
    t.equal(told?.headers.get('x-request-id'), 'lost')
    t.ok(Value.Check(ErrorEnvelope, told?.body))
  })

  await t.test('nobody is there', async t => {
    await until(async () => Object.values(await balancer.states()).every(state => state === 'DOWN'))
    const told = await post(balancer.url, move(1), { 'x-request-id': 'nobody' })
    t.match(told, {
      status: 503,
      body: {
        error: {
          code: 'database_unavailable',
          committed: false,
          retryable: true,
          request_id: 'nobody'
        },
        data: null
      }
    })
    t.equal(told?.headers.get('retry-after'), '1')
    t.ok(Value.Check(ErrorEnvelope, told?.body))
  })

  await t.test('for Prometheus', async t => {
    t.match(
      (await ask(`${balancer.statsUrl}/metrics`)).text,
      /^haproxy_backend_active_servers\{proxy="instances"\} 0$/m
    )
  })
})

t.test(...needs('an instance that does not answer in time', { haproxy }), async t => {
  const database = await useDatabase(t, {
    schema: `${schema} create view nap as select pg_sleep(60)::text as slept; grant select on ` +
      'nap to oneflight_user;'
  })
  const instance = await startInstance(t, database.loginUrl)
  const balancer = await startBalancer(
    t,
    [instance, instance, instance],
    config => config.replace('timeout server 35s', 'timeout server 300ms')
  )
  const told = await post(balancer.url, [{ id: 'p', op: 'select', table: 'nap' }], {
    'x-request-id': 'late'
  })
  t.match(told, {
    status: 500,
    body: { error: { code: 'commit_unknown', committed: 'unknown', request_id: 'late' } }
  })
  const served = instance.output().split('\n').filter(line =>
    line.includes('"request_id":"late"')
  ).length
  t.ok(served <= 1, 'it was sent once')
})

t.test('its patience is longer than the defaults of the service', async t => {
  const text = readFileSync(new URL('../../deploy/haproxy/haproxy.cfg', import.meta.url), 'utf8')
  const seconds = (name: string): number =>
    Number(new RegExp(`^ +${name} (\\d+)s$`, 'm').exec(text)?.[1])
  const request = Number(configItems.find(([name]) => name === 'REQUEST_TIMEOUT_MS')?.[1].default) /
    1000
  for (const name of ['timeout server', 'timeout client', 'hard-stop-after']) {
    t.ok(seconds(name) > request, `${name}: ${seconds(name)} s`)
  }
  t.ok(seconds('timeout http-keep-alive') < 72)
  t.match(text, /^ +retry-on conn-failure$/m, 'nothing is sent twice')
  t.match(text, /^ +option redispatch 1$/m)
})
