/**
 * Batches of the same shape share one plan. Each must store, return and report its own values. The
 * twin service starts anew before a shape recurs, so that it plans and compiles every batch for
 * itself.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { token } from '../support/service.ts'
import { useTwins } from '../support/twins.ts'

const schema = `
  create table accounts (id int primary key, owner text not null, balance numeric(12, 2) not null,
    active bool, tags jsonb, note text, seen timestamptz, constraint funded check (balance >= 0));
  create table entries (n int generated always as identity (start 1000) primary key,
    account int not null references accounts, amount numeric(12, 2), doc json);
  grant all on all tables in schema public to oneflight_user, oneflight_other;`

/** More than it takes until the plan of a shape is used. */
const TIMES = 6

interface Case {
  readonly name: string
  /** The batch; `i` makes each one different. */
  readonly batch: (i: number) => readonly object[]
  readonly headers?: Readonly<Record<string, string>>
}

const open = (i: number): object => op.insert('open', 'accounts', [{
  id: i,
  owner: `owner "${i}" $5.00 é`,
  balance: i + 0.5,
  active: i % 2 === 0,
  tags: { i, list: [i, `${i}`] },
  note: i % 2 === 0 ? null : `$2b$${i}`,
  seen: `2024-01-0${1 + i % 9}T00:00:00Z`
}])

const cases: readonly Case[] = [
  {
    name: 'an insert that others read',
    batch: i => [
      open(i),
      op.insert('entry', 'entries', [
        { account: '$open.0.id', amount: i, doc: [i, { a: `${i}` }] }
      ]),
      op.select('all', 'entries', { where: { account: { eq: '$open.0.id' } } })
    ]
  },
  {
    name: 'a computed value and several conditions',
    batch: i => [op.update('paid', 'accounts', {
      set: { balance: { $inc: i }, note: `paid ${i}`, tags: { $merge: { paid: i } } },
      where: {
        id: { between: [0, i] },
        or: [{ owner: { like: `%${i}%` } }, { not: { balance: { lt: i } } }],
        note: { isdistinct: `paid ${i}` }
      },
      returning: ['id', 'balance', 'note', 'tags']
    })]
  },
  {
    name: 'rows of values for keys, of which two are sometimes equal',
    batch: i => [op.update('paid', 'accounts', {
      key: ['id', { column: 'owner', as: 'was' }],
      values: [
        { id: 1, was: 'owner "1" $5.00 é', balance: { $inc: i }, tags: { i }, note: `n${i}` },
        {
          id: [0, 2, 3, 1, '1', 1e0][i] ?? i,
          was: 'owner "1" $5.00 é',
          balance: { $inc: 2 },
          tags: [i],
          note: null
        }
      ],
      returning: ['id', 'balance', 'note', 'tags']
    })]
  },
  {
    name: 'json paths',
    batch: i => [op.select('found', 'accounts', {
      columns: ['id'],
      where: { 'tags->i': { gte: i }, 'tags->>i': { neq: `${i}` } },
      order: [{ id: 'asc' }]
    })]
  },
  {
    name: 'values of other types',
    batch: i => [op.select('found', 'accounts', {
      columns: ['id'],
      where: { id: { eq: [1, '2', 1e2, 12345678901, '', 'x'][i] } }
    })]
  },
  {
    name: 'an expectation that sometimes fails',
    batch: i => [op.select('one', 'accounts', { where: { id: { eq: i * 2 } }, expect: 1 })]
  },
  {
    name: 'a value that sometimes does not fit',
    batch: i => [
      op.select('first', 'entries', { limit: 1 }),
      op.insert('entry', 'entries', [
        { account: 1, amount: '1' },
        { account: 2, amount: i === 4 ? 'much' : `${i}` }
      ])
    ]
  },
  {
    name: 'a constraint that sometimes fails',
    batch: i => [
      op.update('a', 'accounts', { set: { balance: i === 4 ? -i : i }, all: true }),
      op.insert('entry', 'entries', [{ account: i === 5 ? 77 : 1 }])
    ]
  },
  {
    name: 'a referenced row that is sometimes missing',
    batch: i => [
      op.select('found', 'accounts', { where: { id: { eq: i === 4 ? 99 : 1 } } }),
      op.insert('entry', 'entries', [{ account: '$found.0.id', amount: i }])
    ]
  },
  {
    name: 'minimal answers',
    batch: i => [open(10 + i), op.delete('d', 'entries', { where: { amount: { eq: i } } })],
    headers: { prefer: 'return=minimal' }
  },
  { name: 'a dry run', batch: i => [open(20 + i)], headers: { prefer: 'tx=rollback' } },
  {
    name: 'query plans',
    batch: i => [op.select('s', 'accounts', { where: { id: { eq: i } } })],
    headers: { prefer: 'explain' }
  }
]

t.test('batches of one shape have the answers and the effects of their own values', async t => {
  const { post, compare, restartSecond } = await useTwins(t, { schema, env: { EXPLAIN: 'on' } })
  // The first case stores what the others read.
  for (const group of [cases.slice(0, 1), cases.slice(1)]) {
    const succeeded = new Set<string>()
    for (let i = 0; i < TIMES; i++) {
      await restartSecond()
      for (const { name, batch, headers } of group) {
        if ((await post(batch(i), `${name}, ${i}`, headers)).status === 200) succeeded.add(name)
        await compare('select * from accounts order by id', name)
        await compare('select * from entries order by n', name)
      }
    }
    t.same(group.filter(({ name }) => !succeeded.has(name)), [])
  }
})

t.test('statements are prepared, and follow a change of the types of columns', async t => {
  const { post, compare, countPrepared, restartSecond, sql } = await useTwins(t, { schema })
  const settle = async (name: string): Promise<number> => {
    const before = await countPrepared('accounts')
    for (let i = 0; i < TIMES; i++) {
      await post([{ ...open(i), op: 'insert' }], `${name}, ${i}`, { prefer: 'tx=rollback' })
    }
    return await countPrepared('accounts') - before
  }
  t.ok(await settle('before') > 0)
  await sql(`alter table accounts alter balance type text using balance::text,
    drop constraint funded`)
  await restartSecond()
  await settle('after')
  t.ok(await settle('once more') > 0)
  await post([open(1)], 'stored')
  await compare('select * from accounts', 'stored')
})

t.test('each caller has its own role and claims', async t => {
  const { first: { post } } = await useTwins(t, {
    schema: `${schema}
      alter table accounts enable row level security;
      create policy own on accounts using (owner =
        current_setting('request.jwt.claims')::json ->> 'sub' || ' ' || current_user);`
  })
  for (let i = 0; i < TIMES; i++) {
    for (const role of ['oneflight_user', 'oneflight_other']) {
      const sub = `caller ${i}`
      const row = { id: 2 * i + (role === 'oneflight_user' ? 0 : 1), balance: 0 }
      const { status, body } = await post([
        op.insert('a', 'accounts', [{ ...row, owner: `${sub} ${role}` }]),
        op.select('mine', 'accounts', { columns: ['id'] })
      ], { headers: { authorization: `Bearer ${token({ role, sub })}` } })
      t.equal(status, 200)
      t.same(body.data.mine, [{ id: row.id }], `${sub} ${role}`)
    }
  }
})
