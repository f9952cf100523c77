/**
 * Tests that the error of a constraint names the row of `values`, if PostgreSQL reports its key.
 */
import t, { type Test } from 'tap'
import * as op from '../support/operations.ts'
import { ask, useService, type Answer } from '../support/service.ts'

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
  create table wiped (id int primary key);
  create function wipe() returns trigger language plpgsql as $$ begin
    delete from wiped; return null; end $$;
  create trigger wipe before insert on wiped for each statement execute function wipe();
  create table own (id int primary key, owner text default current_user, team int references teams);
  alter table own enable row level security;
  create policy own on own using (owner = current_user) with check (true);
  alter table teams enable row level security;
  create policy none on teams using (false);
  create table hidden (id int primary key, team int references teams);
  create table places ("Floor, no" int, room text, "Side" text unique, unique ("Floor, no", room));
  insert into places values (1, 'a, b)', 'y'), (null, null, 'z) (');
  insert into teams values (1);
  insert into own values (5, 'somebody');
  insert into people (id, email) values (1, 'a'), (2, 'b');
  insert into members (n) values (1), (2), (3);
  grant all on all tables in schema public to oneflight_user;
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
    ['two equal rows', op.insert('o', 'people', [{ id: 7 }, { id: 8 }, { id: 7 }]),
      { code: 'unique_violation', row: undefined }],
    ['rows with different columns', op.insert('o', 'people',
      [{ id: 7, age: 1 }, { id: 8 }, { id: 9, age: 2 }, { id: 10, email: 'b' }]),
    { code: 'unique_violation', row: 3 }],
    ['not null', op.insert('o', 'people', counted(20, i => ({ name: i === 17 ? null : 'n' }))),
      { code: 'not_null_violation', row: undefined }],
    ['check', op.insert('o', 'people', counted(5, i => ({ age: i - 4 }))),
      { code: 'check_violation', row: undefined }],
    ['domain', op.insert('o', 'people', counted(5, i => ({ code: i === 3 ? 'bad' : 'good' }))),
      { code: 'check_violation', row: undefined }],
    ['exclusion', op.insert('o', 'people', counted(4, i => ({ room: `[${i % 3},${i % 3}]` }))),
      { code: 'exclusion_violation', row: undefined }],
    ['foreign key to a row of the same statement', op.insert('o', 'people',
      counted(4, i => ({ boss: i === 2 ? 999 : 103 }))),
    { code: 'foreign_key_violation', row: 2 }],
    ['foreign key', op.insert('o', 'people', counted(4, i => ({ boss: i === 2 ? 999 : 1 }))),
      { code: 'foreign_key_violation', row: 2 }],
    ['foreign key to rows that the role may not see', op.insert('o', 'hidden',
      counted(4, i => ({ team: i + 1 }))), { code: 'foreign_key_violation', row: 1 }],
    ['foreign key of a table whose policies hide the key', op.insert('o', 'own',
      counted(4, i => ({ team: i + 1 }))), { code: 'foreign_key_violation', row: undefined }],
    ['upsert', op.insert('o', 'people', counted(4, i => ({ email: i === 2 ? 'a' : `${i}` })), {
      on_conflict: { columns: ['id'], do: 'update', set: { name: 'y' } }
    }), { code: 'unique_violation', row: 2 }],
    ['do nothing', op.insert('o', 'people',
      [{ id: 1 }, { id: 2, email: 'z' }, { id: 9, email: 'a' }],
      { on_conflict: { columns: ['id'], do: 'nothing' } }),
    { code: 'unique_violation', row: 2 }],
    ['expect', op.insert('o', 'people', [{ id: 7 }, { id: 1 }], { expect: 2 }),
      { code: 'unique_violation', row: 1 }],
    ['references', op.insert('o', 'people', [{ id: '$before.0.id' }, { id: 7, email: 'a' }]),
      { code: 'unique_violation', row: 1 }],
    ['a key of several columns', op.insert('o', 'places', [
      { 'Floor, no': 1, room: 'a, b)' }, { 'Floor, no': 1, room: 'x' }
    ]), { code: 'unique_violation', row: undefined }],
    ['a name in quotes', op.insert('o', 'places', [
      { Side: 'x', 'Floor, no': 1 }, { Side: 'y', 'Floor, no': 2 }
    ]), { code: 'unique_violation', row: 1 }],
    ['a value that looks like the end of a key', op.insert('o', 'places', [
      { Side: 'z', 'Floor, no': 1 }, { Side: 'z) (', 'Floor, no': 2 }
    ]), { code: 'unique_violation', row: 1 }],
    ['policy hides the key', op.insert('o', 'own', [{ id: 4 }, { id: 5 }, { id: 6 }]),
      { code: 'unique_violation', row: undefined }],
    ['bulk update', op.update('o', 'people', {
      key: ['id'], values: [{ id: 1, age: 1 }, { id: 2, age: -1 }]
    }), { code: 'check_violation', row: undefined }],
    ['bulk update to a unique value', op.update('o', 'people', {
      key: ['id'], values: [{ id: 1, email: 'c' }, { id: 2, email: 'c' }]
    }), { code: 'unique_violation', row: undefined }],
    ['bulk update to a value of another row', op.update('o', 'people', {
      key: ['id'], values: [{ id: 1, age: 2 }, { id: 2, email: 'a' }]
    }), { code: 'unique_violation', row: 1 }],
    ['bulk update that adds', op.update('o', 'members', {
      key: ['id'], values: [{ id: 1, n: { $inc: 3 } }, { id: 2, n: { $inc: 1 } }]
    }), { code: 'unique_violation', row: undefined }],
    ['keys that move on, checked at the end', op.update('o', 'members', {
      key: ['id'], values: [{ id: 1, n: 2 }, { id: 2, n: 3 }]
    }), { code: 'unique_violation', row: 1 }],
    ['a trigger', op.insert('o', 'watched', [{ id: 1 }, { id: 2 }, { id: 3 }]),
      { code: 'unique_violation', row: undefined }],
    ['a trigger of statements', op.insert('o', 'wiped', [{ id: 1 }, { id: 1 }]),
      { code: 'unique_violation', row: undefined }],
    ['one row', op.insert('o', 'people', [{ id: 1 }]),
      { code: 'unique_violation', row: 0, isOnly: true }],
    ['one row that a check refuses', op.insert('o', 'people', [{ id: 7, age: -1 }]),
      { code: 'check_violation', row: 0, isOnly: true }],
    ['rows of a query', op.insert('o', 'people', undefined, {
      from: { table: 'people' }, columns: { id: { $col: 'id' } }
    }), { code: 'unique_violation', row: undefined }],
    ['no rows', op.update('o', 'people', { set: { age: -1 }, all: true }),
      { code: 'check_violation', row: undefined }]
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
  const { text } = await ask(`${service.adminUrl}/metrics`)
  t.notMatch(text, 'service_txn_retry_count{', 'each batch was sent once')
  const [left] = await service.database.sql`select count(*)::int from people`
  t.strictSame(left, { count: 2 })
})

t.test('of a batch that comes again, with a key, or alone on the connection', async t => {
  const service = await useService(t, { schema, keys: true, env: { POOL_SIZE: '1' } })
  const batch = (row: number): readonly object[] =>
    [op.insert('o', 'people', counted(3, i => i === row ? { id: 1 } : {}))]
  for (const [i, row] of [0, 1, 2, 0].entries()) {
    const headers = { 'idempotency-key': `"${i}"` }
    const answer = await service.post(batch(row), { headers })
    expectRow(t, answer, { status: 409, code: 'unique_violation', row })
  }
  t.match(await service.post(batch(-1), { headers: { 'idempotency-key': '"0"' } }), { status: 200 })
})

t.test('of a named batch', async t => {
  const items = {
    type: 'object',
    properties: { id: {}, age: {}, email: {} },
    required: ['id'],
    additionalProperties: false
  }
  const list = { type: 'array', items }
  const service = await useService(t, {
    schema,
    batches: {
      add: {
        params: {
          type: 'object',
          properties: { note: { type: 'integer' }, notes: list, rows: list },
          required: ['note', 'notes', 'rows']
        },
        operations: [
          op.insert('note', 'notes', [{ id: '$params.note' }]),
          op.insert('notes', 'notes', undefined, {
            from: { param: 'notes' }, columns: { id: { $col: 'id' } }
          }),
          op.insert('o', 'people', '$params.rows'),
          op.update('later', 'notes', {
            from: { param: 'rows', on: { id: 'id' } }, set: { id: { $from: 'age' } }
          })
        ].map(({ values, ...operation }) =>
          values === undefined ? operation : { ...operation, values })
      },
      pair: {
        params: {
          type: 'object',
          properties: { first: { type: 'integer' }, second: { type: 'integer' } },
          required: ['first', 'second']
        },
        operations: [
          op.insert('o', 'people', [
            { id: '$params.first' }, { id: '$params.second' }
          ])
        ]
      }
    }
  })
  for (const rows of [
    counted(3, i => ({ email: i === 1 ? 'a' : String(i) })),
    counted(3, i => i === 1 ? { id: 1 } : { email: `$params.${i}` })
  ]) {
    for (let times = 0; times < 2; times++) {
      const answer = await service.run('add', { note: 1, notes: [{ id: 1 }], rows })
      expectRow(t, answer, { status: 409, code: 'unique_violation', row: 1 })
    }
  }
  const answer = await service.run('pair', { first: 8, second: 1 })
  expectRow(t, answer, { status: 409, code: 'unique_violation', row: 1 })
})
