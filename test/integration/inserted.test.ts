/**
 * Tests that `{"fn": "inserted"}` tells which rows of an insert with `on_conflict` are new, in
 * every kind of relation, and that it is refused everywhere else.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { assertIssues, findFailure } from '../support/issues.ts'
import { useService } from '../support/service.ts'
import { failed } from '../support/shorthand.ts'

const schema = `
  create table plain (id int primary key, a int default -1, b int default -2);
  insert into plain select 2 * n, 0, 0 from generate_series(1, 200) as n;
  create table parted (like plain including all) partition by range (id);
  -- Its columns have another order, so its rows are converted.
  create table low (b int default -2, id int not null, a int default -1);
  alter table parted attach partition low for values from (0) to (4);
  create table high partition of parted for values from (4) to (1000);
  insert into parted select * from plain;
  create table base (like plain including all);
  insert into base select * from plain;
  create view simple as select b, a, id from base;
  create table below (like plain including all) partition by range (id);
  create table below_all partition of below default;
  insert into below select * from plain;
  create view "above" as select b, a, id from below;
  create table guarded (like plain including all);
  insert into guarded select * from plain;
  alter table guarded enable row level security;
  create policy everything on guarded using (id > 0) with check (id > 0);
  create table hidden (like plain including all);
  insert into hidden select * from plain;
  grant all on plain, parted, base, simple, below, "above", guarded to oneflight_user;
  -- No privilege on system columns.
  grant select (id, a, b), insert, update on hidden to oneflight_user;
  create table notes (id int generated always as identity primary key, created boolean, word text);
  create table watched (like plain including all);
  insert into watched select * from plain;
  create table audit (id int primary key, n int);
  create function watch() returns trigger language plpgsql as $$ begin
    begin
      insert into audit values (new.id, 1) on conflict (id) do update set n = audit.n + 1;
      if new.id % 2 = 0 then raise 'undo'; end if;
    exception when raise_exception then null; end;
    if tg_op = 'INSERT' then return case when new.id <> 3 then new end; end if;
    return case when new.a <> 100 then new end;
  end $$;
  create trigger watch before insert or update on watched for each row execute function watch();
  create table singles (id int primary key default 1, n int default 0);
  grant all on notes, watched, audit, singles to oneflight_user;
`
const kinds = ['plain', 'parted', 'simple', 'above', 'guarded', 'hidden']
const created = { fn: 'inserted', as: 'created' }
const update = { columns: ['id'], do: 'update', set: { a: { $excluded: 'a' } } }
const rollback = { headers: { prefer: 'tx=rollback' } }
const service = await useService(t, { schema })

t.test('new rows are told from existing ones in every kind of relation', async t => {
  const save = { id: 'i', op: 'insert', on_conflict: update, returning: ['id', created] }
  const uniform = [1, 2, 3, 4, 5].map(id => ({ id, a: 7 }))
  // So many that rows which name the same columns are inserted together.
  const mixed = Array.from({ length: 400 }, (_, i) => {
    const id = (i * 7) % 401 + 1
    return i % 2 === 0 ? { id, a: 1 } : { id, b: 1 }
  })
  const isNew = (id: number): boolean => id % 2 === 1
  for (const table of kinds) {
    const saved = await service.post([{ ...save, table, values: uniform }], rollback)
    t.same(saved.body.data?.i, uniform.map(({ id }) => ({ id, created: isNew(id) })), table)
    const placed = await service.post([{ ...save, table, values: mixed }], rollback)
    t.same(placed.body.data?.i, mixed.map(({ id }) => ({ id, created: isNew(id) })), table)
    const kept = await service.post([
      { ...save, table, values: uniform, on_conflict: { columns: ['id'], do: 'nothing' } }
    ], rollback)
    t.same(kept.body.data?.i, [1, 3, 5].map(id => ({ id, created: true })), table)
    const added = await service.post([
      { ...save, table, values: mixed, on_conflict: { columns: ['id'], do: 'nothing' } }
    ], rollback)
    const expected = mixed.filter(({ id }) => isNew(id)).map(({ id }) => ({ id, created: true }))
    t.same(added.body.data?.i, expected, table)
  }
})

t.test('what the transaction did to a row before does not count', async t => {
  const table = 'plain'
  const save = {
    op: 'insert',
    table,
    values: [2, 4, 5, 7].map(id => ({ id, a: 1 })),
    on_conflict: update,
    returning: [created]
  }
  const { body } = await service.post([
    op.select('locked', table, { where: { id: { eq: 2 } }, lock: 'update' }),
    op.select('shared', table, { where: { id: { eq: 4 } }, lock: 'key_share' }),
    op.update('changed', table, { set: { b: 5 }, where: { id: { eq: 4 } } }),
    op.insert('added', table, [{ id: 5 }]),
    { ...save, id: 'first' },
    { ...save, id: 'second' },
    op.delete('gone', table, { where: { id: { in: [2, 7] } } }),
    { ...save, id: 'third' }
  ], rollback)
  const rows = (...values: boolean[]): object[] => values.map(value => ({ created: value }))
  t.match(body.data, {
    first: rows(false, false, false, true),
    second: rows(false, false, false, false),
    third: rows(true, false, false, true)
  })
})

t.test('triggers that suppress rows, or roll back a part, do not mix up the rows', async t => {
  const values = [{ id: 2, a: 100 }, ...[5, 4, 3, 7].map(id => ({ id, a: 1 }))]
  const { body } = await service.post([op.insert('i', 'watched', values, {
    on_conflict: update,
    returning: ['id', created]
  })], rollback)
  t.same(body.data?.i, [
    { id: 5, created: true },
    { id: 4, created: false },
    { id: 7, created: true }
  ])
})

t.test('later operations read it, and depend on it', async t => {
  const save = (id: string, values: object[], more: object = {}): object =>
    op.insert(id, 'plain', values, { on_conflict: update, returning: [created], ...more })
  const values = [{ id: 1, a: 1 }, { id: 2, b: 1 }]
  const { body } = await service.post([
    save('one', values),
    save('all', values, { returning: ['*', created] }),
    op.insert('read', 'notes', [{ created: '$one.0.created' }, { created: '$all.0.created' }], {
      returning: ['created']
    }),
    save('none', values, { answer: 'count', expect: 2 }),
    save('skipped', values, { when: { none: 0 } })
  ], rollback)
  t.match(body.data, {
    one: [{ created: true }, { created: false }],
    read: [{ created: true }, { created: false }],
    none: 2,
    skipped: null
  })
})

t.test('rows of a query can be new too', async t => {
  const copy = (columns: object): object => op.insert('i', 'plain', undefined, {
    from: { table: 'base', where: { id: { lte: 4 } }, order: [{ id: 'asc' }] },
    columns,
    on_conflict: { columns: ['id'], do: 'update', set: { b: { $inc: 1 } } },
    returning: ['id', created]
  })
  await service.database.sql`insert into base values (1), (3)`
  const { body } = await service.post([copy({ a: 7, id: { $col: 'id' } })], rollback)
  t.same(body.data?.i, [1, 2, 3, 4].map(id => ({ id, created: id % 2 === 1 })))
})

t.test('rows without columns can be new too', async t => {
  const { body } = await service.post(['a', 'b'].map(id => op.insert(id, 'singles', [{}], {
    on_conflict: { columns: ['id'], do: 'update', set: { n: { $inc: 1 } } },
    returning: ['n', { fn: 'inserted' }]
  })), rollback)
  t.same(body.data, { a: [{ n: 0, inserted: true }], b: [{ n: 1, inserted: false }] })
})

t.test('it is refused elsewhere, with every other issue', async t => {
  const insert = op.insert('o', 'plain', [{ id: 1 }], { returning: [created] })
  assertIssues(t, [
    [insert, 'member_invalid returning[0].fn'],
    [op.update('o', 'plain', { set: { a: 1 }, all: true, returning: ['id', created] }),
      'member_invalid returning[1].fn'],
    [op.select('o', 'plain', { columns: [created] }), 'member_invalid columns[0].fn'],
    [{ ...insert, on_conflict: { columns: ['id'] } }, 'member_missing on_conflict.do']
  ])
  t.equal(
    findFailure([insert])?.message,
    '"inserted" works only in "returning" of an insert with "on_conflict".'
  )
  const returning = ['*', { fn: 'inserted', as: 'a' }]
  const clash = await service.post([{ ...insert, on_conflict: update, returning }])
  t.match(clash, failed(400, 'ambiguous_column'))
  t.equal((await service.database.sql`select * from plain`).length, 200, 'nothing was written')
})
