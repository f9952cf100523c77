/**
 * What words of the language send, those that need types, functions or several statements. A batch
 * that names a table for the first time takes two round trips, because the types of its columns are
 * read first, and one from then on. A service that prepares nothing (`PREPARED_STATEMENTS=off`),
 * and one that writes comments (`SQL_COMMENTS=on`), run the same texts. With comments, every
 * statement of a batch, including COMMIT, has one with its request id and trace.
 */
import t, { type Test } from 'tap'
import { createFramer } from '../support/network/messages.ts'
import * as op from '../support/operations.ts'
import {
  holdUntilWritten,
  isIdle,
  messageTypes,
  untilAlone,
  useProxy,
  type Proxy
} from '../support/network/proxy.ts'
import { token, useService } from '../support/service.ts'
import { until } from '../support/until.ts'

type Word = readonly [
  name: string,
  /** `n`: the number of the batch, by which its rows differ from those of the others. */
  batch: (tables: Tables, n: number) => readonly object[],
  headers?: (n: number) => Readonly<Record<string, string>>
]

/** The tables and functions of a word, which no other word names. */
interface Tables {
  readonly orders: string
  readonly items: string
  readonly total: string
  readonly found: string
}

function nameTables (n: number): Tables {
  return { orders: `orders_${n}`, items: `items_${n}`, total: `total_${n}`, found: `found_${n}` }
}

function createTables (_: Word, n: number): string {
  return `
    create table orders_${n} (id int primary key, status status not null default 'open',
      tags text[], data jsonb, placed timestamptz, prices numeric[]);
    create table items_${n} (order_id int, sku text, qty int, primary key (order_id, sku));
    insert into orders_${n} values (-1, 'paid', '{a}', '{"a": [1]}', '2024-01-01Z');
    insert into orders_${n} values (-2);
    insert into items_${n} values (-1, 'apple', 1), (-1, 'pear', 2), (-2, 'pear', 3);
    create function total_${n} (of int, more int[] default '{}') returns bigint language sql
      as 'select $1 + coalesce(sum(x), 0) from unnest($2) as x';
    create function found_${n} () returns setof orders_${n} language sql
      as 'select * from orders_${n} where id < 0';`
}

const insert = (table: string, values: readonly object[], more: object = {}): object =>
  op.insert('i', table, values, more)
const select = (table: string, more: object = {}): object => op.select('s', table, more)

const words: readonly Word[] = [
  ['arrays, enums and jsonb', ({ orders }, n) => [
    insert(orders, [{ id: n, status: 'paid', tags: ['b', null], data: { n, list: [n] } }]),
    select(orders, { where: { status: { eq: 'paid' }, data: { cs: { n } } } }),
    op.update('u', orders, {
      set: { tags: { $append: ['c'] }, data: { $merge: { more: n } }, prices: [n, 1.5] },
      where: { id: { eq: n } }
    })
  ]],
  ['tables that are read by from', ({ orders, items }, n) => [
    insert(orders, [{ id: n }]),
    op.insert('copied', items, undefined, {
      from: { table: items, where: { order_id: { eq: -1 } }, order: [{ sku: 'asc' }] },
      columns: { order_id: '$i.0.id', sku: { $col: 'sku' }, qty: 7 }
    }),
    op.update('u', orders, {
      from: { table: items, on: { id: 'order_id' }, where: { sku: { eq: 'apple' } } },
      set: { data: { of: 'apple' } },
      where: { id: { eq: { $from: 'order_id' } } }
    })
  ]],
  ['call with a reference, beside a table', ({ orders, total, found }, n) => [
    op.call('f', found, {}, { where: { id: { lt: n } } }),
    select(orders, { where: { id: { in: '$f.*.id' } } }),
    op.call('c', total, { of: '$s.0.id', more: '$f.*.id' })
  ]],
  ['with', ({ orders, items }) => [
    select(orders, {
      columns: ['id'],
      order: [{ id: 'asc' }],
      with: { items: { table: items, on: { order_id: 'id' }, order: [{ sku: 'asc' }] } }
    })
  ]],
  ['Idempotency-Key', ({ orders }, n) => [insert(orders, [{ id: n, data: { n } }]), select(orders)],
    n => ({ 'idempotency-key': `key-${n}` })]
]

const schema = `
  create type status as enum ('open', 'paid');
  create table nothing ();
  ${words.map(createTables).join('')}`

interface Sent {
  readonly roundTrips: number
  /** The texts of the statements that name a table or a function of the batch. */
  readonly texts: readonly string[]
  /** The texts of all statements. */
  readonly all: readonly string[]
  /** Whether a statement was prepared, or run from a prepared one. */
  readonly prepares: boolean
}

/** Starts a service with one connection, and posts each word several times. */
async function sendWords (
  t: Test,
  times: number,
  env: Readonly<Record<string, string>> = {}
): Promise<ReadonlyArray<readonly Sent[]>> {
  const proxy = await useProxy(t, process.env['TEST_DATABASE_URL'] as string)
  const { post } = await useService(t, {
    schema,
    keys: true,
    env: { POOL_SIZE: '1', ...env },
    databaseUrl: proxy.through
  })
  await untilAlone(proxy)
  const authorization = `Bearer ${token({ role: 'oneflight_user' })}`
  // Opens the connection. No other one may interfere after that.
  await post([op.select('s', 'nothing')], { headers: { authorization } })
  await until(() => isIdle(proxy))
  proxy.open = false
  holdUntilWritten(proxy)
  const names = new Map<string, string>()
  const all: Sent[][] = []
  for (const [i, [name, batch, headers]] of words.entries()) {
    const sent: Sent[] = []
    for (let time = 1; time <= times; time++) {
      const n = 100 * time
      proxy.record()
      const { status, text } = await post(batch(nameTables(i), n), {
        headers: {
          authorization, 'x-request-id': `request-${n}`, traceparent: TRACE, ...headers?.(n)
        }
      })
      if (status !== 200) throw new Error(`${name}: ${text}`)
      // The response does not wait for the statements after COMMIT.
      await until(() => isIdle(proxy))
      sent.push(readSent(proxy, names))
    }
    all.push(sent)
  }
  return all
}

/** `names`: the texts of the prepared statements of the connection, by name. */
function readSent ({ bursts }: Proxy, names: Map<string, string>): Sent {
  // On a connection that was quiet for 100 ms, BEGIN is sent first, without a comment.
  const isBegin = (bytes: Buffer): boolean =>
    messageTypes(bytes) === 'Q' && bytes.includes('begin isolation level')
  const sent = bursts.filter(({ from, bytes }) => from === 'client' && !isBegin(bytes))
    .map(({ bytes }) => bytes)
  const texts: string[] = []
  const all: string[] = []
  let prepares = false
  for (const { type, body } of createFramer().feed(Buffer.concat(sent))) {
    const [first = '', second = ''] = body.toString('latin1').split('\0', 2)
    if (type === 'P') names.set(first, second)
    if (type === 'Q') all.push(first)
    if (type !== 'B') continue
    // The session was prepared when the connection was opened.
    texts.push(names.get(second) ?? '')
    prepares ||= second !== ''
  }
  return {
    roundTrips: sent.length,
    texts: texts.filter(text => text.includes('"public"."')),
    all: [...texts, ...all],
    prepares
  }
}

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const COMMENT = new RegExp(`^(.*) /\\*request_id='request-\\d+',traceparent='${TRACE}'\\*/$`, 's')

t.test('each word takes two round trips for a new table, then one, with the same texts', {
  timeout: 120_000
}, async t => {
  // The second time the plan of a batch is kept, the third time it is used.
  const kept = await sendWords(t, 3)
  const unprepared = await sendWords(t, 2, { PREPARED_STATEMENTS: 'off' })
  const commented = await sendWords(t, 2, { SQL_COMMENTS: 'on' })
  for (const [i, [name]] of words.entries()) {
    const services = { kept, unprepared, commented }
    const texts = kept[i]?.[0]?.texts ?? []
    t.ok(texts.length > 0, name)
    for (const [service, all] of Object.entries(services)) {
      const sent = all[i] as readonly Sent[]
      const [unknown, ...known] = sent.map(({ roundTrips }) => roundTrips)
      t.equal(unknown, 2, `${name}, ${service}: the first time`)
      t.ok(known.every(count => count === 1), `${name}, ${service}: ${known.join()} round trips`)
      const isCommented = service === 'commented'
      for (const [time, { texts: found, all }] of sent.entries()) {
        const bare = isCommented ? found.map(text => COMMENT.exec(text)?.[1]) : found
        t.same(bare, texts, `${name}, ${service}: the texts`)
        // The first time, the types of columns are read, without a comment.
        if (!isCommented || time === 0) continue
        t.same(all.filter(text => !COMMENT.test(text)), [], name)
        t.ok(all.some(text => text.startsWith('commit')), name)
      }
    }
  }
  t.ok(kept.flat().some(({ prepares }) => prepares))
  t.notOk([...unprepared, ...commented].flat().some(({ prepares }) => prepares))
})
