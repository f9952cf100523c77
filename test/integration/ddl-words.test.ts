/**
 * Tests that each word of the language, as the first one after a change of its table, is answered
 * as by a service that starts after the change.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { isTaken } from '../support/runs.ts'
import { nameCase, useCompared, type Batch, type Statements } from '../support/compared.ts'

/**
 * The batch of a word. `table` is the table that changes, `value` one of its column `a`, `others`
 * those of further columns.
 */
type Word = (table: string, value: unknown, key: string, others?: object) => Batch

const first = { id: { eq: 1 } }
const some = { returning: ['id', 'a'] }
const rows = (count: number, value: unknown, others?: object): readonly object[] =>
  Array.from({ length: count }, (_, i) => ({ id: 100 + i, a: value, ...others }))
const byKey = (table: string, count: number, value: unknown): Batch => [op.update('o', table, {
  key: ['id'], values: Array.from({ length: count }, (_, i) => ({ id: 1 + i, a: value })), ...some
})]
const read = (table: string): object =>
  op.select('q', table, { where: first, columns: ['id', 'a'] })

const words: Readonly<Record<string, Word>> = {
  'insert 1 row': (table, a, _, others) =>
    [op.insert('o', table, [{ id: 9, a, ...others }], some)],
  'insert whole rows': (table, a) => [op.insert('o', table, [{ id: 9, a, b: 1 }])],
  'insert 20 rows': (table, a, _, others) => [op.insert('o', table, rows(20, a, others), some)],
  'insert no value': table => [op.insert('o', table, [{ id: 9 }, { id: 10, a: null }], some)],
  'insert a reference': table => [
    read(table), op.insert('o', table, [{ id: 9, a: '$q.0.a' }], some)
  ],
  'insert from a query': table => [op.insert('o', table, undefined, {
    from: { table, where: first }, ...some, columns: { id: 9, a: { $col: 'a' } }
  })],
  'insert a constant from a query': (table, a) => [{
    id: 'o', op: 'insert', table, from: { table, where: first }, columns: { id: 9, a }, ...some
  }],
  'upsert without set': (table, a) => [
    op.insert('o', table, [{ id: 1, a }], {
      on_conflict: { columns: ['id'], do: 'update' }, ...some
    })
  ],
  'upsert with set': (table, a) => [op.insert('o', table, [{ id: 1, a }, { id: 9, a }], {
    on_conflict: { columns: ['id'], do: 'update', set: { a } }, ...some
  })],
  'upsert by constraint': (table, a, key) => [op.insert('o', table, [{ id: 1, a }], {
    on_conflict: { constraint: key, do: 'update' }, ...some
  })],
  'upsert 20 rows': (table, a) => [op.insert('o', table, [{ id: 1, a }, ...rows(20, a)], {
    on_conflict: { columns: ['id'], do: 'update', set: { a: { $excluded: 'a' } } }, ...some
  })],
  update: (table, a) => [op.update('o', table, { set: { a }, where: first, ...some })],
  'update to NULL': table => [op.update('o', table, { set: { a: null }, all: true, ...some })],
  'update by a reference': table => [
    read(table), op.update('o', table, { set: { a: '$q.0.a' }, where: { id: { eq: 2 } }, ...some })
  ],
  'update by a value': (table, a) => [
    op.update('o', table, { set: { a }, where: { a: { eq: a } }, ...some })
  ],
  'update other columns': table => [op.update('o', table, {
    set: { b: { $inc: 1 }, l: { $append: [4] }, j: { $merge: { y: 2 } } }, where: first, ...some
  })],
  ...Object.fromEntries(Object.entries({ $append: 4, $inc: 1, $merge: { y: 2 } }).map(
    ([word, value]): [string, Word] => [word, table => [
      op.update('o', table, { set: { a: { [word]: value } }, where: first, ...some })
    ]]
  )),
  'update from': table => [op.update('o', table, {
    from: { table, on: { id: 'id' }, where: first }, set: { a: { $from: 'a' } }, ...some
  })],
  'update 1 row by key': (table, a) => byKey(table, 1, a),
  'update 2 rows by key': (table, a) => byKey(table, 2, a),
  'update 20 rows by key': (table, a) => byKey(table, 20, a),
  delete: (table, a) => [op.delete('o', table, { where: { a: { eq: a } }, ...some })],
  'delete one row': table => [op.delete('o', table, { where: first, returning: ['a'] })],
  'select one row': table => [op.select('o', table, { where: first })],
  'select by a value': (table, a) => [op.select('o', table, {
    where: { a: { eq: a, isdistinct: null } }, columns: ['id'], order: [{ id: 'asc' }]
  })],
  'select by a list': (table, a) => [op.select('o', table, {
    where: { a: { in: [a] } }, columns: ['id'], order: [{ id: 'asc' }]
  })],
  'select by cs': (table, a) => [op.select('o', table, { where: { a: { cs: { $value: a } } } })],
  'select by full text': table => [op.select('o', table, { where: { a: { fts: 'five' } } })],
  'select by a reference': table => [read(table), op.select('o', table, {
    where: { a: { eq: '$q.0.a' } }, columns: ['id'], order: [{ id: 'asc' }]
  })],
  'select in an order': (table, a) => [op.select('o', table, {
    columns: ['id', 'a'], order: [{ a: 'desc' }, { id: 'asc' }], after: [a, 0]
  })],
  'select a path': table => [op.select('o', table, {
    columns: [{ column: 'j->x', as: 'x' }, { column: 'a->x', as: 'y' }],
    where: { id: { lte: 2 } },
    order: [{ id: 'asc' }]
  })],
  'select groups': (table, a) => [op.select('o', table, {
    columns: ['a', { fn: 'count' }],
    group_by: ['a'],
    having: { a: { neq: { $value: a } } },
    order: [{ count: 'desc' }],
    limit: 1
  })],
  'select with': table => [op.select('o', table, {
    columns: ['id'], where: first, with: { more: { table, on: { id: 'id' } } }
  })],
  exists: (table, a) => [op.select('o', table, {
    columns: ['id'],
    where: { exists: { table, on: { id: 'id' }, where: { a: { eq: a } } } },
    order: [{ id: 'asc' }]
  })],
  'call with a reference': table => [
    read(table), op.call('o', 'told', { value: '$q.0.a' })
  ],
  'a new column': (table, a) => [
    op.select('o', table, { where: first, columns: ['id', 'z'] }),
    op.insert('p', table, [{ id: 9, z: a }], { returning: ['id', 'z'] })
  ]
}

interface Change extends Omit<Statements, 'create'> {
  /** The former type of the column `a`. */
  readonly type: string
  /** A value of that type, as SQL and as JSON. */
  readonly stored: string
  readonly value: unknown
  /** Statements before the table is created. */
  readonly before?: string
  /** Statements after it is created. */
  readonly after?: string
  /** Values of further columns. */
  readonly others?: object
  /** The words that are sent; undefined: all, of which the quick suites take some. */
  readonly taken?: readonly string[]
}

const change = (statements: string, more: Partial<Change> = {}): Change =>
  ({ type: 'text', stored: "'5'", value: '5', change: statements, ...more })
/** `using`: the stored values in the new type. */
const retype = (
  type: string,
  now: string,
  { using = `a::text::${now}`, ...more }: Partial<Change> & { readonly using?: string }
): Change => change(`alter table $T alter a type ${now} using ${using}`, { type, ...more })

/** Words that write values in the type that was read before a part of it has changed. */
const taken = ['insert 1 row', 'insert 20 rows', 'update 2 rows by key', 'select by a value']

/** More columns than the conditions of a statement read one by one. */
const many = Array.from({ length: 60 }, (_, i) => `c${i}`)

const pair = 'create type pair$N as (x int, y int)'
const swap = 'alter type pair$N drop attribute x, add attribute x int'
/** Changes of a composite that is part of a type. */
const parts: ReadonlyArray<
  readonly [name: string, type: string, value: unknown, before: string, statement?: string]
> = [
  ['swaps names', 'pair$N', { x: 1, y: 2 }, pair,
    `alter type pair$N rename attribute x to z; alter type pair$N rename attribute y to x;
      alter type pair$N rename attribute z to y`],
  ['has another attribute', 'pair$N', { x: 1, y: 2 }, pair,
    'alter type pair$N drop attribute y, add attribute z int'],
  ['has an attribute with fewer digits', 'pair$N', { x: 1, y: '1.2345' },
    'create type pair$N as (x int, y numeric(10,4))',
    'alter type pair$N drop attribute y, add attribute y numeric(10,2)'],
  ['is in an array', 'pair$N[]', [{ x: 1, y: 2 }], pair],
  ['is in a domain of an array of a domain', 'all$N', [{ x: 1, y: 2 }],
    `${pair}; create domain one$N as pair$N; create domain all$N as one$N[]`],
  ['is in others', 'more$N', { o: [{ p: { x: 1, y: 2 } }] },
    `${pair}; create type other$N as (p pair$N, q pair$N); create type more$N as (o other$N[])`],
  ['is of another schema', 'two.pair$N', { x: 1, y: 2 },
    'create type two.pair$N as (x int, y int)',
    'alter type two.pair$N drop attribute x, add attribute x int'],
  ['is in a range', 'range$N', [{ x: 1, y: 2 }, { x: 3, y: 4 }],
    `${pair}; create type range$N as range (subtype = pair$N)`],
  ['is beside a domain with a scale', 'price$N', { p: { x: 1, y: 2 }, c: ['1.25'] },
    `${pair}; create domain cents$N as numeric(10,2);
      create type price$N as (p pair$N, c cents$N[])`]
]

const changes: Readonly<Record<string, Change>> = {
  'text becomes int': retype('text', 'int', { stored: "'5'", value: '5' }),
  'int becomes text': retype('int', 'text', { stored: '5', value: 5 }),
  'int becomes bigint': retype('int', 'bigint', { stored: '5', value: 3_000_000_000 }),
  'a domain takes a scale': retype('wide$N', 'narrow$N', {
    before: 'create domain wide$N as numeric(10,4); create domain narrow$N as numeric(10,2)',
    stored: '5',
    value: '5.1234'
  }),
  ...Object.fromEntries(([
    ['numeric', 'numeric(10,2)', '5', '1.2345'],
    ['numeric(10,2)', 'numeric(10,4)', '5', '5.1234'],
    ['varchar(9)', 'varchar(1)', '5', '5  '],
    ['interval', 'interval minute', '5 min', '5'],
    ['numeric(10,4)[]', 'numeric(10,2)[]', '{5}', ['1.2345']],
    ['varchar(9) collate "C"', 'varchar(1) collate "C"', '5', 'a  '],
    ['char(3)', 'char(2)', 'a', 'a  '],
    ['timetz(3)', 'timetz(0)', '10:00Z', '10:00:00.123Z'],
    ['timestamptz(6)', 'timestamptz(0)', '2026-01-02', '2026-01-02T10:00:00.5Z'],
    ['interval', 'interval day to minute', '5 min', '5 min 7 s'],
    ['interval day to second(3)', 'interval day to second(1)', '5 s', '5.123 s']
  ] as const).map(([type, now, stored, value]) =>
    [`${type} becomes ${now}`, retype(type, now, { stored: `'${stored}'`, value, taken })])),
  'one of many columns loses digits': retype('numeric(10,4)', 'numeric(10,2)', {
    stored: '5',
    value: '1.2345',
    after: `alter table $T ${many.map(name => `add ${name} numeric(9,1)`).join()}`,
    others: Object.fromEntries(many.map(name => [name, '0.5'])),
    taken
  }),
  ...Object.fromEntries(parts.map(([name, type, value, before, statement = swap]) =>
    [`a composite ${name}`, change(statement, { before, type, stored: 'null', value, taken })])),
  'text becomes jsonb': retype('text', 'jsonb', { stored: "'5'", value: '5' }),
  'jsonb becomes text': retype('jsonb', 'text', { stored: "'5'", value: 5 }),
  'jsonb becomes json': retype('jsonb', 'json', { stored: '\'{"x":1}\'', value: { x: 1 } }),
  'json becomes a composite': retype('json', 'pair$N', {
    before: 'create type pair$N as (x int, y text)',
    stored: '\'{"x":1,"y":"b"}\'',
    value: { x: 1, y: 'b' },
    using: 'null'
  }),
  'a composite becomes jsonb': retype('pair$N', 'jsonb', {
    before: 'create type pair$N as (x int, y text)',
    stored: "'(1,b)'",
    value: { x: 1, y: 'b' },
    using: 'to_jsonb(a)'
  }),
  'timestamptz becomes timestamp': retype('timestamptz', 'timestamp', {
    stored: "'2026-01-02'", value: '2026-01-02T10:00:00'
  }),
  'int becomes int[]': retype('int', 'int[]', { stored: '5', value: '{5}', using: 'array[a]' }),
  'int[] becomes int': retype('int[]', 'int', { stored: "'{5}'", value: [5], using: 'a[1]' }),
  'text becomes a range': retype('text', 'int4range', { stored: "'[1,5)'", value: '[1,5)' }),
  'text becomes an enum': retype('text', 'mood$N', {
    before: "create type mood$N as enum ('5', '6')", stored: "'5'", value: '5'
  }),
  'text becomes a domain of int': retype('text', 'small$N', {
    before: 'create domain small$N as int', stored: "'5'", value: '5'
  }),
  'a domain gets a constraint': change('alter domain small$N add check (value < 9)', {
    before: 'create domain small$N as int', type: 'small$N', stored: '5', value: 10
  }),
  'a domain is created again': change(`alter table $T alter a type text; drop domain small$N;
    create domain small$N as date; alter table $T alter a type small$N using '2026-01-02'`, {
    before: 'create domain small$N as int', type: 'small$N', stored: '5', value: 5
  }),
  'an enum gets a value': change("alter type mood$N add value '7'", {
    before: "create type mood$N as enum ('5', '6')", type: 'mood$N', stored: "'5'", value: '7'
  }),
  ...Object.fromEntries(Object.entries({
    'gets an attribute': 'add attribute z int',
    'has its attributes in another order': 'drop attribute x, add attribute x int',
    'has an attribute of another type': 'alter attribute y type int'
  }).map(([name, statement]) => [`a composite ${name}`, change(`alter type pair$N ${statement}`, {
    before: 'create type pair$N as (x int, y text)',
    type: 'pair$N',
    stored: "'(1,5)'",
    value: { x: 1, y: '5' },
    // PostgreSQL refuses to change the type of an attribute that is in use.
    ...statement.includes('type') && {
      change: `alter table $T alter a type text using null; alter type pair$N ${statement};
        alter table $T alter a type pair$N using null`
    }
  })])),
  'a column is added': change("alter table $T add z text default 'x'"),
  'a column is dropped': change('alter table $T drop a'),
  'a column is renamed': change('alter table $T rename a to z'),
  'columns swap their names': change(`alter table $T rename a to z; alter table $T rename b to a;
    alter table $T rename z to b`),
  'a column is dropped and added': change('alter table $T drop a; alter table $T add a int'),
  'the table is created again': change(`drop table $T; create table $T (a jsonb, id bigint,
    constraint key$N primary key (id)); insert into $T values ('5', 1)`),
  'the table is dropped': change('drop table $T'),
  'another table takes the name': change(`alter table $T rename to old$N;
    create table new$N (id int primary key, a int, j json, l text[], b text);
    insert into new$N values (1, 5, '{}', '{}', 'x'); alter table new$N rename to t$N`),
  'the table becomes partitioned': change(`drop table $T; create table $T (id int primary key,
    b int, a int, j jsonb, l int[]) partition by list (id); create table part$N partition of $T
    default; insert into $T values (1, 2, 5)`),
  'a default changes': change("alter table $T alter a set default 'other'"),
  'a column becomes generated': change(`alter table $T drop a;
    alter table $T add a text generated always as ('x' || id::text) stored`),
  'a column becomes an identity': change(`alter table $T drop a; alter table $T add a int;
    update $T set a = 5; alter table $T alter a set not null;
    alter table $T alter a add generated always as identity`),
  'a column becomes not null': change('alter table $T alter a set not null'),
  'a check is added': change("alter table $T add check (a is distinct from '5') not valid"),
  'the key is dropped': change('alter table $T drop constraint key$N'),
  'the key is another one': change(`alter table $T drop constraint key$N;
    alter table $T add constraint key$N primary key (id, b)`),
  'a trigger is added': change(`create trigger tell before insert or update on $T
    for each row execute function tell()`),
  'a plain trigger is added': change(`create trigger tell before update on $T
    for each row execute function suppress_redundant_updates_trigger()`),
  'a policy is added': change(`alter table $T enable row level security;
    create policy one on $T using (id = 1)`),
  'a rule is added': change('create rule no as on insert to $T do instead nothing'),
  'a view is replaced': change(`create or replace view $T as
    select id, a, b, j, l, 'x'::text as z from base$N`, {
    after: 'alter table $T rename to base$N; create view $T as select id, a, b, j, l from base$N'
  }),
  'a view is created again': change(`drop view $T;
    create view $T as select id, a::int as a, b, j, l from base$N`, {
    after: 'alter table $T rename to base$N; create view $T as select id, a, b, j, l from base$N'
  }),
  'a view takes the name': change(`alter table $T rename to base$N;
    create view t$N as select id, a::int as a, b, j, l from base$N`),
  'a computed column is added': change(
    "create function z(t$N) returns text language sql stable as $$ select $1.a || '!' $$"
  ),
  'a computed column is dropped': change('drop function z(t$N)', {
    after: "create function z(t$N) returns text language sql stable as $$ select $1.a || '!' $$"
  }),
  'a computed column becomes volatile': change(`create or replace function z(t$N) returns text
    language plpgsql as $$ begin return $1.a || '?'; end $$`, {
    after: "create function z(t$N) returns text language sql stable as $$ select $1.a || '!' $$"
  }),
  'schemas swap their names': change(`alter schema one rename to three;
    alter schema two rename to one`, {
    schema: 'one',
    undo: 'alter schema one rename to two; alter schema three rename to one',
    after: `create table two.t$N (id int, a int, b int, j jsonb, l int[],
      constraint key$N primary key (id)); insert into two.t$N values (1, 5, 2)`
  })
}

const schema = `
  create function tell() returns trigger language plpgsql as $$ begin
    new.b := 77; return new; end $$;
  create function told(value jsonb) returns text language sql stable as
    $$ select 'j' || value::text $$;`

const create = ({ type, stored, before = '', after = '' }: Change): string => `${before};
  create table $T (id int, a ${type}, b int default 7, j jsonb default '{"x": 1}',
    l int[] default '{1}', constraint key$N primary key (id));
  insert into $T (id, a) select i, ${stored} from generate_series(1, 3) as i; ${after}`

t.test('each word after each change equals that of a new service', async t => {
  const { compare } = await useCompared(t, schema)
  for (const [i, [name, each]] of Object.entries(changes).entries()) {
    const chosen = Object.entries(words).filter(([word], j) =>
      each.taken?.includes(word) ?? isTaken(i + j, 9))
    const cases = chosen.map(([word, build]) => nameCase(word, each.schema, names =>
      build(names.table, each.value, `key${names.suffix}`, each.others)))
    t.same(await compare(cases, { ...each, create: create(each) }), [], name)
  }
})
