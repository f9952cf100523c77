/**
 * Tests that the error of a constraint names the row of `values`, if PostgreSQL reports its key.
 */
import t, { type Test } from 'tap'
import * as op from '../support/operations.ts'
import { retriesOf, useService, type Answer } from '../support/service.ts'

const schema = `
  create domain code as text check (value <> 'bad');
  create table people (id int primary key, email text unique, age int check (age >= 0),
    name text not null default 'x', boss int references people, code code, room int4range,
    exclude using gist (room with &&));
  create table notes (id int);
  create table teams (id int primary key);
  create table members (id int generated always as identity primary key,
    team int references teams, n int, unique (n) deferrable initially immediate);
  create table watched (id int primary key);
  create function watch() returns trigger language plpgsql as $$ begin
    if new.id = 3 then insert into watched values (1); end if; return new; end $$;
  create trigger watch before insert on watched for each row execute function watch();
  create table own (id int primary key, owner text default current_user, team int references teams);
  alter table own enable row level security;
  create policy own on own using (owner = current_user) with check (true);
  alter table teams enable row level security;
  create policy none on teams using (false);
  create table rooms (id int primary key, floor int, side text, unique (floor, side));
  create table doors (room int references rooms, side text, floor int,
    foreign key (side, floor) references rooms (side, floor));
  insert into rooms values (1, 1, 'x'), (2, 5, 'y');
  insert into doors values (1, 'x', 1);
  create table hidden (id int primary key, team int references teams);
  create table places ("Floor, no" int, room text, "Side" text unique, unique ("Floor, no", room));
  insert into places values (1, 'a, b)', 'y'), (null, null, 'z) (');
  insert into teams values (1);
  insert into own values (5, 'somebody');
  insert into people (id, email) values (1, 'a'), (2, 'b');
  insert into members (n, team) values (1, 1), (2, null), (3, null);
`
const counted = (count: number, change: (i: number) => object | undefined): readonly object[] =>
  Array.from({ length: count }, (_, i) => ({ id: 100 + i, ...change(i) }))

interface Expected {
  readonly status: number
  readonly code: string
  readonly row: number | undefined
  /** The message does not name it. */
  readonly isOnly?: boolean
}

function expectRow (
  t: Test,
  { status, body: { error } }: Answer,
  expected: Expected
): void {
  const { row, isOnly = false, ...rest } = expected
  t.match({ status, code: error?.code }, rest)
  t.strictSame(error.path, row === undefined ? undefined : ['values', row])
  const named = /^Row (\d+) of values: /.exec(error.message)?.[1]
  t.equal(named, isOnly || row === undefined ? undefined : String(row))
}

t.test('the error names the row', async t => {
  const service = await useService(t, { schema })
  const cases: ReadonlyArray<readonly [string, object, Omit<Expected, 'status'>]> = [
    ['unique', op.insert('o', 'people', counted(3, i => i === 1 ? { id: 2 } : {})),
      { code: 'unique_violation', row: 1 }],
    ['not null', op.insert('o', 'people', counted(20, i => ({ name: i === 17 ? null : 'n' }))),
      { code: 'not_null_violation', row: undefined }],
    ['check', op.insert('o', 'people', counted(5, i => ({ age: i - 4 }))),
      { code: 'check_violation', row: undefined }],
    ['foreign key to a row of the same statement', op.insert('o', 'people',
      counted(4, i => ({ boss: i === 2 ? 999 : 103 }))),
    { code: 'foreign_key_violation', row: 2 }],
    ['foreign key to rows that the role may not see', op.insert('o', 'hidden',
      counted(4, i => ({ team: i + 1 }))), { code: 'foreign_key_violation', row: 1 }],
    ['expect', op.insert('o', 'people', [{ id: 7 }, { id: 1 }], { expect: 2 }),
      { code: 'unique_violation', row: 1 }],
    ['a name in quotes', op.insert('o', 'places', [
      { Side: 'x', 'Floor, no': 1 }, { Side: 'y', 'Floor, no': 2 }
    ]), { code: 'unique_violation', row: 1 }],
    ['policy hides the key', op.insert('o', 'own', [{ id: 4 }, { id: 5 }, { id: 6 }]),
      { code: 'unique_violation', row: undefined }],
    ['bulk update to a unique value', op.update('o', 'people', {
      key: ['id'], values: [{ id: 1, email: 'c' }, { id: 2, email: 'c' }]
    }), { code: 'unique_violation', row: undefined }],
    ['bulk update to a value of another row', op.update('o', 'people', {
      key: ['id'], values: [{ id: 1, age: 2 }, { id: 2, email: 'a' }]
    }), { code: 'unique_violation', row: 1 }],
    ['bulk update to a computed value of another row', op.update('o', 'people', {
      key: ['id'], values: [{ id: 1, email: { $col: 'name' } }, { id: 2, email: 'x', name: 'x' }]
    }), { code: 'unique_violation', row: undefined }],
    ['a row that exists, changed to a value of another row', op.insert('o', 'people', [
      { id: 1, email: 'd' }, { id: 9, email: 'b' }
    ], { on_conflict: { columns: ['id'], do: 'update', set: { email: 'b' } } }),
    { code: 'unique_violation', row: undefined }],
    ['a row that exists, changed to another value of the row', op.insert('o', 'people', [
      { id: 1, name: 'b' }, { id: 9, email: 'b' }
    ], { on_conflict: { columns: ['id'], do: 'update', set: { email: { $excluded: 'name' } } } }),
    { code: 'unique_violation', row: undefined }],
    ['a row that exists, changed to its own value', op.insert('o', 'people', [
      { id: 9, email: 'd' }, { id: 1, email: 'b' }
    ], { on_conflict: { columns: ['id'], do: 'update' } }),
    { code: 'unique_violation', row: 1 }],
    ['a key to which others refer, and a row that would get it', op.update('o', 'rooms', {
      key: [{ column: 'id', as: 'old' }], values: [{ old: 1, id: 3 }, { old: 9, id: 1 }]
    }), { code: 'foreign_key_violation', row: undefined }],
    ['the same in another column', op.update('o', 'rooms', {
      key: ['id'], values: [{ id: 1, floor: 2 }, { id: 9, side: 'x', floor: 1 }]
    }), { code: 'foreign_key_violation', row: undefined }],
    ['the same, changed by an insert', op.insert('o', 'rooms', [
      { id: 1, side: 'x', floor: 2 }, { id: 2, side: 'x', floor: 1 }
    ], { on_conflict: { columns: ['id'], do: 'update', where: { floor: { lt: 5 } } } }),
    { code: 'foreign_key_violation', row: undefined }],
    ['bulk update to a row that does not exist', op.update('o', 'members', {
      key: ['n'], values: [{ n: 1, team: 1 }, { n: 2, team: 7 }]
    }), { code: 'foreign_key_violation', row: 1 }],
    ['keys that move on, checked at the end', op.update('o', 'members', {
      key: ['id'], values: [{ id: 1, n: 2 }, { id: 2, n: 3 }]
    }), { code: 'unique_violation', row: 1 }],
    ['a trigger', op.insert('o', 'watched', [{ id: 1 }, { id: 2 }, { id: 3 }]),
      { code: 'unique_violation', row: undefined }],
    ['one row', op.insert('o', 'people', [{ id: 1 }]),
      { code: 'unique_violation', row: 0, isOnly: true }],
    ['rows of a query', op.insert('o', 'people', undefined, {
      from: { table: 'people' }, columns: { id: { $col: 'id' } }
    }), { code: 'unique_violation', row: undefined }]
  ]
  for (const [name, operation, expected] of cases) {
    const { values, ...rest } = operation as { values?: unknown }
    const sent = values === undefined ? rest : operation
    const answer = await service.post([
      op.insert('before', 'notes', [{ id: 50 }, { id: -50 }]),
      sent
    ])
    t.test(name, async t => {
      const status = ['check_violation', 'not_null_violation'].includes(expected.code) ? 400 : 409
      expectRow(t, answer, { ...expected, status })
      t.match(answer.body.error, { op: 'o', index: 1, committed: false, retryable: false })
    })
  }
  t.same(await retriesOf(service), {}, 'each batch was sent once')
  const [left] = await service.database.sql`select count(*)::int from people`
  t.strictSame(left, { count: 2 })
})

t.test('of a named batch', async t => {
  const { properties, required } = op.rowsOf({ id: {}, email: {} })
  const service = await useService(t, {
    schema,
    batches: {
      add: {
        params: {
          type: 'object',
          properties: { note: { type: 'integer' }, ...properties },
          required: ['note', ...required]
        },
        operations: [
          op.insert('note', 'notes', [{ id: '$params.note' }]),
          op.insert('o', 'people', '$params.rows')
        ]
      },
      pair: {
        params: {
          type: 'object',
          properties: { first: { type: 'integer' }, second: { type: 'integer' } },
          required: ['first', 'second']
        },
        operations: [op.insert('o', 'people', [{ id: '$params.first' }, { id: '$params.second' }])]
      }
    }
  })
  const rows = counted(3, i => i === 1 ? { id: 1 } : { email: `$params.${i}` })
  const expected = { status: 409, code: 'unique_violation', row: 1 }
  for (let times = 0; times < 2; times++) {
    expectRow(t, await service.run('add', { note: 1, rows }), expected)
  }
  expectRow(t, await service.run('pair', { first: 8, second: 1 }), expected)
})
