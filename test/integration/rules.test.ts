/**
 * Tables with rules: every change that a rule would rewrite is refused with one message, by every
 * word of the language. Other changes of these tables are not.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'
import { failed } from '../support/shorthand.ts'

const events = ['insert', 'update', 'delete'] as const
const actions = {
  also: 'also insert into log values (1)',
  instead: 'instead insert into log values (1)',
  nothing: 'instead nothing',
  sometimes: 'instead nothing'
} as const
const kinds = Object.keys(actions) as ReadonlyArray<keyof typeof actions>

const schema = `
  set check_function_bodies = off;
  create table log (id int);
  create table base (id int primary key, n int);
  ${events.flatMap(event => kinds.map(kind => `
    create table ${event}_${kind} (id int primary key, n int);
    create rule r as on ${event} to ${event}_${kind}
      ${kind === 'sometimes' ? `where ${event === 'insert' ? 'new' : 'old'}.n = 0` : ''}
      do ${actions[kind]};`)).join('')}
  create view shown as select * from base;
  create rule r as on insert to shown
    do instead insert into base values (new.id, new.n) returning *;
  create view many as select * from base;
  create rule r as on insert to many do instead
    insert into base select i, new.n from generate_series(11, 13) as i returning *;
  create function write() returns int language sql as
    'insert into insert_instead values (1) returning id';`

const changes = {
  insert: (table: string) => [
    op.insert('o', table, [{ id: 1, n: 1 }, { id: 2, n: 2 }]),
    op.insert('o', table, [{ id: 1 }], { returning: [] }),
    op.insert('o', table, undefined, { from: { table: 'base' }, columns: { id: { $col: 'id' } } }),
    op.insert('o', table, [{ id: 1, n: 1 }], {
      on_conflict: { columns: ['id'], do: 'update', set: { n: 2 } }
    })
  ],
  update: (table: string) => [
    op.update('o', table, { set: { n: 2 }, all: true }),
    op.update('o', table, { set: { n: 2 }, all: true, returning: [] }),
    op.update('o', table, { key: ['id'], values: [{ id: 1, n: 3 }] })
  ],
  delete: (table: string) => [
    op.delete('o', table, { all: true }),
    op.delete('o', table, { all: true, returning: [] })
  ]
} as const

const batches = { named: { operations: [op.insert('o', 'insert_instead', [{ id: 1 }])] } }
const { post, run, database } = await useService(t, { schema, batches })
const refused = (table: string) => failed(400, 'feature_not_supported', {
  op: 'o',
  committed: false,
  message: `Table "public.${table}" has a rule (CREATE RULE) for this change, which an ` +
    'operation cannot run. Replace the rule by a trigger, or write to another table.'
})

t.test('a change for which the table has a rule is refused', async t => {
  for (const event of events) {
    for (const kind of kinds) {
      const table = `${event}_${kind}`
      for (const operation of changes[event](table)) {
        t.match(await post([operation]), refused(table), JSON.stringify(operation))
      }
    }
  }
  t.match(await run('named', {}), refused('insert_instead'))
  t.same(await database.sql`select from log`, [])
})

t.test('other changes, reads and a rule that returns its rows are not', async t => {
  for (const kind of kinds) {
    const operations = [
      ...changes.insert(`delete_${kind}`).slice(0, 1),
      ...changes.delete(`insert_${kind}`),
      ...changes.update(`insert_${kind}`),
      op.select('o', `update_${kind}`, { lock: 'update' })
    ]
    for (const operation of operations) {
      t.equal((await post([operation])).status, 200, JSON.stringify(operation))
    }
  }
  const { body } = await post([op.insert('o', 'shown', [{ id: 1, n: 1 }])])
  t.same(body.data, { o: [{ id: 1, n: 1 }] })
})

t.test('the rows that a rule returns for one row are those of the operation', async t => {
  const { body } = await post([
    op.insert('many', 'many', [{ n: 5 }]),
    op.select('first', 'base', { where: { id: { eq: '$many.0.id' } } })
  ])
  t.same(body.data, {
    many: [{ id: 11, n: 5 }, { id: 12, n: 5 }, { id: 13, n: 5 }],
    first: [{ id: 11, n: 5 }]
  })
})

t.test('a rule that a function meets is described by PostgreSQL', async t => {
  t.match(await post([op.call('o', 'write', {})]), failed(400, 'feature_not_supported', {
    message: /RETURNING|rules/
  }))
})
