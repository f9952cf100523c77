/**
 * Tests batches that are the first ones after the type of a column has changed. Each word is the
 * only one that meets the column. Its response and the stored rows are those of a table that the
 * service has not read before.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { isTaken } from '../support/runs.ts'
import { useService } from '../support/service.ts'

/** A type, with a value that is stored in a column of it, and one that is sent. */
interface Kind {
  readonly type: string
  readonly stored: string
  readonly sent: unknown
}

const kinds: readonly Kind[] = [
  { type: 'text', stored: "'7'", sent: 'x7' },
  { type: 'int', stored: '7', sent: 8 },
  { type: 'bigint', stored: '7', sent: 9007199254740993n.toString() },
  { type: 'numeric(12,2)', stored: '7', sent: 8.25 },
  { type: 'float8', stored: '7', sent: 0.1 },
  { type: 'varchar(5)', stored: "'7'", sent: 'abcde' },
  { type: 'mood', stored: "'7'", sent: 'sad' },
  { type: 'small', stored: '7', sent: 9 },
  { type: 'jsonb', stored: "'7'", sent: { a: [1, '2'] } },
  { type: 'json', stored: "'7'", sent: { b: 1 } },
  { type: 'text[]', stored: "'{7}'", sent: ['a', 'b,c'] },
  { type: 'int[]', stored: "'{7}'", sent: [1, 2] },
  { type: 'pair', stored: "'(7,7)'", sent: { a: 1, b: 'x' } },
  { type: 'date', stored: "'2026-01-07'", sent: '2026-02-08' },
  {
    type: 'timestamptz',
    stored: "'2026-01-07'",
    sent: '2026-02-08T10:00:00.000001Z'
  },
  { type: 'interval', stored: "'7'", sent: '8 days' },
  { type: 'interval minute', stored: "'7'", sent: '5' },
  { type: 'int4range', stored: "'[7,8)'", sent: '[1,5)' },
  { type: 'inet', stored: "'127.0.0.7'", sent: '10.0.0.0/8' },
  { type: 'bytea', stored: "'7'", sent: '\\x00ff' },
  { type: 'uuid', stored: `'${'7'.repeat(32)}'`, sent: '8'.repeat(32) },
  { type: 'boolean', stored: 'true', sent: false }
]

/** Each word that a value meets a column by. `table` has one row with id 1. */
const words: Readonly<Record<string, (table: string, kind: Kind) => readonly object[]>> = {
  insert: (table, { sent }) => [op.insert('i', table, [{ id: 2, c: sent }])],
  'insert of many rows': (table, { sent }) => [
    op.insert('i', table, Array.from({ length: 20 }, (_, i) => ({ id: i + 2, c: sent })))
  ],
  set: (table, { sent }) => [
    op.update('u', table, { set: { c: sent }, where: { id: { eq: 1 } } })
  ],
  'update by key': (table, { sent }) => [
    { id: 'u', op: 'update', table, key: ['id'], values: [{ id: 1, c: sent }] }
  ],
  'update of many keys': (table, { sent }) => [{
    id: 'u',
    op: 'update',
    table,
    key: ['id'],
    values: Array.from({ length: 20 }, (_, i) => ({ id: i + 1, c: sent }))
  }],
  'on_conflict.set': (table, { sent }) => [{
    ...op.insert('i', table, [{ id: 1 }]),
    on_conflict: { columns: ['id'], do: 'update', set: { c: sent } }
  }],
  'a constant of an insert from a query': (table, { sent }) => [{
    id: 'i',
    op: 'insert',
    table,
    from: { table: 'one' },
    columns: { id: 3, c: { $value: sent } }
  }],
  'a reference': table => [
    op.select('s', table, { columns: ['c'] }),
    op.update('u', table, { set: { c: '$s.0.c' }, where: { id: { eq: 1 } } })
  ],
  'a reference that is inserted': table => [
    op.select('s', table, { columns: ['c'] }),
    op.insert('i', table, [{ id: 2, c: '$s.0.c' }])
  ],
  'a reference of a list': table => [
    op.select('s', table, { columns: ['c'] }),
    op.select('l', table, { where: { c: { in: '$s.*.c' } } })
  ],
  eq: (table, { sent }) => [op.select('s', table, { where: { c: { neq: { $value: sent } } } })],
  in: (table, { sent }) => [op.select('s', table, { where: { c: { in: [sent] } } })],
  delete: (table, { sent }) => [op.delete('d', table, { where: { c: { eq: { $value: sent } } } })],
  cs: (table, { sent }) => [op.select('s', table, { where: { c: { cs: { $value: sent } } } })],
  path: table => [op.select('s', table, { columns: ['id', { column: 'c->a', as: 'a' }] })],
  'full text': table => [op.select('s', table, { where: { c: { fts: 'seven' } } })],
  after: (table, { sent }) => [
    op.select('s', table, { order: [{ c: 'asc' }, { id: 'asc' }], after: [sent, 0] })
  ],
  $append: (table, { sent }) => [
    op.update('u', table, { set: { c: { $append: [sent] } }, where: { id: { eq: 1 } } })
  ],
  $merge: table => [
    op.update('u', table, { set: { c: { $merge: { k: 1 } } }, where: { id: { eq: 1 } } })
  ],
  $inc: table => [
    op.update('u', table, { set: { c: { $inc: 1 } }, where: { id: { eq: 1 } } })
  ],
  having: (table, { sent }) => [op.select('s', table, {
    columns: ['c', { fn: 'count' }],
    group_by: ['c'],
    having: { c: { neq: { $value: sent } } }
  })]
}

const schema = `
  create type mood as enum ('7', 'sad');
  create type pair as (a int, b text);
  create domain small as int check (value < 10);
  create table one ();
  insert into one default values;
  grant all on one to oneflight_user;`

/** Changes from each type to the next one in the list, both ways. */
const changes = kinds.flatMap((from, i) => {
  const to = kinds[(i + 1) % kinds.length] as Kind
  return [[from, to], [to, from]] as const
}).filter((_, i) => isTaken(i, 3))

const batchOf = (name: string, table: string, kind: Kind): readonly object[] =>
  (words[name] as NonNullable<typeof words[string]>)(table, kind)

t.test('each word alone after the type of its column has changed', async t => {
  const service = await useService(t, {
    schema,
    env: { POOL_SIZE: '4', QUEUE_SIZE: '50', LOG_LEVEL: 'error' }
  })
  const { database: { sql } } = service
  for (const [i, [from, to]] of changes.entries()) {
    const names = Object.keys(words)
    const tableOf = (kind: 'known' | 'new', n: number): string => `${kind}_${i}_${n}`
    const all = names.flatMap((_, n) => [tableOf('known', n), tableOf('new', n)])
    await sql.unsafe(all.map(table =>
      `create table ${table} (id int primary key, c ${from.type});
      insert into ${table} values (1, ${from.stored});
      grant all on ${table} to oneflight_user;`).join('\n'))
    // The service reads the types of these tables, and prepares the statement of each word.
    for (let round = 0; round < 3; round++) {
      await Promise.all(names.map(async (name, n) => {
        const batch = batchOf(name, tableOf('known', n), from)
        await service.post(batch, { headers: { prefer: 'tx=rollback' } })
      }))
    }
    await sql.unsafe(all.map(table =>
      `alter table ${table} alter c type ${to.type} using ${to.stored}::${to.type};`).join('\n'))
    await Promise.all(names.map(async (name, n) => {
      const [known, anew] = await Promise.all(
        [tableOf('known', n), tableOf('new', n)].map(async table => {
          const options = { headers: { 'x-request-id': 'r' } }
          const { status, text } = await service.post(batchOf(name, table, to), options)
          const rows = await sql.unsafe(`select id, c::text as c from ${table} order by id`)
          return [status, text.replaceAll(table, 'table'), rows]
        })
      )
      t.same(known, anew, `${from.type} to ${to.type}: ${name}`)
    }))
    await sql.unsafe(`drop table ${all.join()}`)
  }
})
