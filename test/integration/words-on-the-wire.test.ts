/**
 * What words of the language send, those that need types, functions or several statements. A batch
 * that names a table for the first time takes two round trips, because the types of its columns are
 * read first, and one from then on. A service that prepares nothing (`PREPARED_STATEMENTS=off`),
 * and one that writes comments (`SQL_COMMENTS=on`), run the same texts. With comments, every
 * statement of a batch, including COMMIT, has one with its request id and trace.
 */
import t, { type Test } from 'tap'
import * as op from '../support/operations.ts'
import { useMeter, type Cost } from '../support/cost.ts'

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
  ${words.map(createTables).join('')}`

/** Starts a service with one connection, and posts each word several times. */
async function sendWords (
  t: Test,
  times: number,
  env: Readonly<Record<string, string>> = {}
): Promise<ReadonlyArray<readonly Cost[]>> {
  const { measure } = await useMeter(t, schema, env)
  const all: Cost[][] = []
  for (const [i, [, batch, headers]] of words.entries()) {
    const sent: Cost[] = []
    for (let time = 1; time <= times; time++) {
      const n = 100 * time
      sent.push(await measure(batch(nameTables(i), n), {
        'x-request-id': `request-${n}`, traceparent: TRACE, ...headers?.(n)
      }))
    }
    all.push(sent)
  }
  return all
}

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const COMMENT = new RegExp(`^(.*) /\\*request_id='request-\\d+',traceparent='${TRACE}'\\*/$`, 's')
/** The types of columns, or BEGIN on a quiet connection, and then everything else. */
const ROUND_TRIPS = 2
/** A statement that was prepared earlier. */
const PREPARED = /\bBE/

t.test('each word takes one round trip and sends the same texts', {
  timeout: 120_000
}, async t => {
  const [kept, unprepared, commented] = await Promise.all([
    // The second time the plan of a batch is kept, the third time it is used.
    sendWords(t, 3),
    sendWords(t, 2, { PREPARED_STATEMENTS: 'off' }),
    sendWords(t, 2, { SQL_COMMENTS: 'on' })
  ])
  const ofWord = (texts: readonly string[]): readonly string[] =>
    texts.filter(text => text.includes('"public"."'))
  for (const [i, [name]] of words.entries()) {
    const texts = ofWord(kept[i]?.[0]?.texts ?? [])
    t.ok(texts.length > 0, name)
    for (const [service, all] of Object.entries({ kept, unprepared, commented })) {
      for (const cost of all[i] as readonly Cost[]) {
        t.equal(cost.roundTrips, ROUND_TRIPS, `${name}, ${service}`)
        const isCommented = service === 'commented'
        if (isCommented) {
          t.same(cost.texts.filter(text => !COMMENT.test(text)), [], name)
          t.ok(cost.texts.some(text => text.startsWith('commit')), name)
        }
        const bare = cost.texts.map(text => isCommented ? String(COMMENT.exec(text)?.[1]) : text)
        t.same(ofWord(bare), texts, `${name}, ${service}: the texts`)
        t.equal(PREPARED.test(cost.messages), service === 'kept', `${name}, ${service}`)
      }
    }
  }
})
