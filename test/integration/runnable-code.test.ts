/**
 * Tests which operations can run code of the database: each way in which a select or a write of a
 * table can call a function, with functions of each kind.
 */
import t from 'tap'
import type { TransactionSql } from 'postgres'
import { render, sql as fragment } from '../../src/fragment/fragment.ts'
import { ColumnTypes, columnTypesQuery } from '../../src/sql/values/column-types.ts'
import { FunctionTypes, functionTypesQuery } from '../../src/sql/values/function-types.ts'
import { callRunsCode, codeOfRelation } from '../../src/sql/values/runnable-code.ts'
import { useDatabase } from '../support/database/database.ts'

const { sql } = await useDatabase(t)

/** Runs statements in a transaction that is rolled back, and returns what `read` returns. */
async function inSchema<T> (
  statements: readonly string[],
  read: (sql: TransactionSql) => Promise<T>
): Promise<T> {
  const undo = new Error('undo')
  let result: T | undefined
  await sql.begin(async sql => {
    for (const statement of statements) await sql.unsafe(statement)
    result = await read(sql)
    throw undo
  }).catch((error: unknown) => {
    if (error !== undo) throw error
  })
  return result as T
}

type Code = readonly [reads: boolean, writes: boolean]

/** Whether operations on the relation `t` can run code. */
async function codeOf (sql: TransactionSql): Promise<Code> {
  const [row] = await sql.unsafe(
    `select ${render(codeOfRelation(fragment`c.oid`)).text} as code
      from pg_class as c where c.oid operator(pg_catalog.=) 't'::regclass`
  )
  const { reads, writes } = row?.['code'] as Readonly<Record<'reads' | 'writes', boolean>>
  return [reads, writes]
}

/** Whether a call of the function `called` can run code. */
async function callOf (sql: TransactionSql): Promise<boolean> {
  const [row] = await sql.unsafe(
    `select ${render(callRunsCode(fragment`p.oid`)).text} as code
      from pg_proc as p where p.oid = 'called'::regproc`
  )
  return row?.['code'] as boolean
}

/** The kinds of functions, and whether they are code. */
const kinds = [
  { name: 'volatile plpgsql', language: 'plpgsql', volatility: 'volatile' },
  { name: 'volatile SQL', language: 'sql', volatility: 'volatile' },
  { name: 'stable', language: 'plpgsql', volatility: 'stable' },
  { name: 'immutable', language: 'plpgsql', volatility: 'immutable' },
  { name: 'C', language: 'c', volatility: 'volatile' }
] as const

/**
 * Creates a function. It is not VOLATILE before everything else exists, because an index takes none
 * that is.
 */
function createFunction (
  signature: string,
  { language, volatility }: Pick<typeof kinds[number], 'language' | 'volatility'>
): readonly [create: string, alter: string] {
  const [name, result] = signature.split(' returns ') as [string, string]
  const body = {
    plpgsql: '$$ begin return null; end $$',
    sql: `$$ select null::${result} from (values (1)) as v $$`,
    // It is not called.
    c: "'$libdir/plpgsql', 'plpgsql_validator'"
  }[language]
  return [
    `create function ${signature} language ${language} immutable as ${body}`,
    `alter function ${name} ${volatility}`
  ]
}

const BOTH = [true, true] as const
const WRITES = [false, true] as const
const NONE = [false, false] as const

/** `signature` is that of the function, `schema` what calls it, `before` what exists before it. */
type Carrier = readonly [
  name: string,
  expected: readonly [reads: boolean, writes: boolean],
  schema: string,
  signature?: string,
  before?: string
]

const FILTER = 'code(int) returns boolean'
const trigger = 'code() returns trigger'
const mood = "create type mood as enum ('good')"
const domain = 'create domain d as int check (code(value))'
const onInsert = 'before insert on t for each row execute function'
const notify = `create trigger x ${onInsert} code()`

const carriers: readonly Carrier[] = [
  ['no call', NONE, 'create table t (a int)'],
  ['an identity column', NONE, 'create table t (a int generated always as identity primary key)'],
  ['a default', WRITES, 'create table t (a boolean default code(1))'],
  ['a generated column', WRITES,
    'create table t (a int, b boolean generated always as (code(a)) stored)'],
  ['a check', WRITES, 'create table t (a int check (code(a)))'],
  ['an index expression', BOTH, 'create table t (a int); create index on t (code(a))'],
  ['an index predicate', BOTH, 'create table t (a int); create index on t (a) where code(a)'],
  ['a trigger', WRITES, `create table t (); ${notify}`, trigger],
  ['a disabled trigger', NONE, `create table t (); ${notify}; alter table t disable trigger x`,
    trigger],
  ['a trigger for replicas', WRITES,
    `create table t (); ${notify}; alter table t enable replica trigger x`, trigger],
  ['a trigger of TRUNCATE', NONE,
    'create table t (); create trigger x after truncate on t execute function code()', trigger],
  ['the condition of a trigger', WRITES,
    `create table t (a int); create trigger x before update on t for each row
      when (code(new.a)) execute function suppress_redundant_updates_trigger()`],
  ['a trigger of a foreign table', WRITES,
    `create foreign data wrapper w; create server s foreign data wrapper w;
      create foreign table t () server s; ${notify}`, trigger],
  ['a rule', WRITES, 'create table t (); create rule x as on insert to t do also select code(1)'],
  ['the condition of a rule', WRITES, `create table t (a int);
      create rule x as on update to t where code(old.a) do instead nothing`],
  ['a disabled rule', NONE,
    `create table t (); create rule x as on insert to t do also select code(1);
      alter table t disable rule x`],
  ['a table that a rule writes', WRITES,
    `create table u (a boolean default code(1)); create table t ();
      create rule x as on insert to t do also insert into u default values`],
  ['a view', BOTH, 'create view t as select code(1) as a'],
  ['a view over a table with a default', WRITES,
    `create table u (a boolean default code(1)); create view v as select * from u;
      create view t as select * from v`],
  ['a default of a view', WRITES, `create table u (a boolean); create view t as select * from u;
      alter view t alter column a set default code(1)`],
  ['a trigger of a view', WRITES, `create view t as select 1 as a;
      create trigger x instead of insert on t for each row execute function code()`, trigger],
  ['a materialized view, although a select does not run it', BOTH,
    'create materialized view t as select code(1) as a with no data'],
  ['a policy', BOTH, 'create table t (a int); create policy x on t using (code(a))'],
  ['a policy for INSERT', WRITES,
    'create table t (a int); create policy x on t for insert with check (code(a))'],
  ['a policy for UPDATE, which a select with a lock needs', BOTH,
    'create table t (a int); create policy x on t for update using (code(a))'],
  ['a policy of a table that a policy reads', BOTH,
    `create table u (a int); create policy x on u using (code(a)); create table t (a int);
      create policy x on t using (exists (select from u where u.a = t.a))`],
  ['a trigger of a table that a policy reads', NONE,
    `create table u (a int); create trigger x before insert on u execute function code();
      create table t (a int); create policy x on t using (exists (select from u where u.a = t.a))`,
    trigger],
  ['the key of a partitioned table', WRITES, 'create table t (a int) partition by hash (code(a))'],
  ['the key of the parent of a partition', WRITES,
    `create table p (a int) partition by hash (code(a));
      create table q partition of p for values with (modulus 1, remainder 0)
        partition by list (a);
      create table t partition of q for values in (1)`],
  ['a trigger of a partition', WRITES, `create table t (a int) partition by list (a);
      create table p partition of t for values in (1) partition by list (a);
      create table q partition of p for values in (1);
      create trigger x before insert on q for each row execute function code()`, trigger],
  ['a trigger of another partition', NONE, `create table p (a int) partition by list (a);
      create table t partition of p for values in (1);
      create table u partition of p for values in (2);
      create trigger x before insert on u for each row execute function code()`, trigger],
  ['a child of inheritance', WRITES,
    'create table t (a int); create table u (check (code(a))) inherits (t)'],
  ...['on delete cascade', 'on update cascade', 'on delete set null', 'on update set default']
    .map((action): Carrier => [
      `a foreign key ${action}`, WRITES,
      `create table t (a int primary key); create table u (a int references t ${action});
        create trigger x after update on u execute function code()`, trigger
    ]),
  ['foreign keys over two tables', WRITES, `create table t (a int primary key);
      create table u (a int primary key references t on delete cascade);
      create table v (a int check (code(a)) references u on delete cascade)`],
  ['a foreign key without an action', NONE, `create table t (a int primary key);
      create table u (a int check (code(a)) references t)`],
  ['the table that a foreign key references', NONE,
    `create table u (a int primary key check (code(a)));
      create table t (a int references u on delete cascade)`],
  ['a domain', BOTH, `${domain}; create table t (a d)`],
  ['the default of a domain', BOTH,
    'create domain d as boolean default code(1); create table t (a d)'],
  ['a domain over an array of a composite type', BOTH,
    `${domain}; create type c as (a d[]); create domain e as c[]; create domain f as e;
      create table t (a f)`],
  ['a domain in the row type of another table', BOTH,
    `${domain}; create table u (a d); create table t (a u)`],
  ['a check of another table with the row type of a column', NONE,
    'create table u (a int check (code(a))); create table t (a u)'],
  ['a cast', BOTH, 'create cast (mood as text) with function code(mood); create table t (a mood)',
    'code(mood) returns text', mood],
  ['a cast to a type', BOTH,
    'create cast (text as mood) with function code(text); create table t (a mood[])',
    'code(text) returns mood', mood],
  ['a cast of a type that the table does not have', NONE,
    'create cast (mood as text) with function code(mood); create table t (a text)',
    'code(mood) returns text', mood],
  ['a cast between built-in types', BOTH,
    'create cast (point as int) with function code(point); create table t (a point)',
    'code(point) returns int'],
  ['an operator', BOTH, `create operator = (leftarg = mood, rightarg = text, function = code);
      create table t (a mood)`, 'code(mood, text) returns boolean', mood],
  ['an operator of a type that the table does not have', NONE,
    `create operator = (leftarg = mood, rightarg = text, function = code);
      create table t (a text)`, 'code(mood, text) returns boolean', mood],
  ['an operator of built-in types', BOTH,
    `create operator = (leftarg = point, rightarg = text, function = code);
      create table t (a point)`, 'code(point, text) returns boolean'],
  ['an operator in a view', BOTH,
    `create operator === (leftarg = int, rightarg = mood, function = code);
      create view t as select 1 === 'good'::mood as a`, 'code(int, mood) returns boolean', mood],
  ['an operator class', BOTH, `create operator class x default for type point using btree as
      function 1 code(point, point); create table t (a point)`, 'code(point, point) returns int'],
  ['an operator class of a range', BOTH,
    `create operator class x for type pair using btree as function 1 code(pair, pair);
      create type r as range (subtype = pair, subtype_opclass = x); create table t (a r)`,
    'code(pair, pair) returns int', 'create type pair as (a int, b int)'],
  ['the difference of a range', BOTH,
    'create type r as range (subtype = int, subtype_diff = code); create table t (a r)',
    'code(int, int) returns float8'],
  ['the difference of a multirange', BOTH,
    `create type r as range (subtype = int, subtype_diff = code,
      multirange_type_name = m); create table t (a m)`, 'code(int, int) returns float8'],
  ['an aggregate in a view', BOTH, `create aggregate total(int) (sfunc = code, stype = int);
      create view t as select total(a) as a from (values (1)) as v (a)`,
  'code(int, int) returns int'],
  ['an aggregate with the name of one that statements call', BOTH,
    'create aggregate sum(text) (sfunc = code, stype = int); create table t (a text)',
    'code(int, text) returns int'],
  ['an aggregate that nothing calls', NONE,
    'create aggregate total(text) (sfunc = code, stype = int); create table t (a text)',
    'code(int, text) returns int'],
  ['a function with the name of one that statements call', BOTH, 'create table t (a int)',
    'count(int) returns int'],
  ['the default of a parameter', WRITES,
    `create function outside(a boolean default code(1)) returns boolean stable
        language sql as 'select a';
      create table t (a boolean default outside())`],
  ['a body in standard SQL', WRITES, `create function outside() returns boolean stable language sql
        begin atomic select code(1); end;
      create table t (a boolean default outside())`],
  ['a table that a body in standard SQL reads', BOTH,
    `create table u (a int); create policy x on u using (code(a));
      create function outside() returns bigint stable language sql
        begin atomic select count(*) from u; end;
      create view t as select outside() as a`],
  ['the domain that a function returns', WRITES, `${domain};
      create function outside() returns d immutable language plpgsql as 'begin return 1; end';
      create table t (a int default outside())`]
]

t.test('operations run code if a function is VOLATILE and not in C', async t => {
  for (const kind of kinds) {
    for (const [name, expected, schema, signature = FILTER, before = ''] of carriers) {
      if (kind.language === 'sql' && signature === trigger) continue
      const [create, alter] = createFunction(signature, kind)
      const [reads, writes] = await inSchema([before, create, schema, alter], codeOf)
      const isCode = kind.volatility === 'volatile' && kind.language !== 'c'
      t.strictSame([reads, writes], isCode ? expected : NONE, `${name}: ${kind.name}`)
    }
  }
})

/** Built-in functions that change the session or run a text as SQL. */
const builtIn = [
  "set_config('timezone', 'UTC', false) is not null",
  'pg_try_advisory_lock(1)',
  'pg_advisory_unlock(1, 1)',
  "query_to_xml('select 1', true, true, '') is not null",
  "ts_rewrite('a'::tsquery, 'select 1') is not null"
]

const harmless = [
  "current_setting('timezone') is not null",
  'pg_try_advisory_xact_lock(1)',
  "ts_rewrite('a'::tsquery, 'a'::tsquery, 'b'::tsquery) is not null",
  'random() < 1'
]

const expressions: ReadonlyArray<readonly [
  name: string,
  schema: (expression: string) => string,
  expected: Carrier[1]
]> = [
  ['a default', call => `create table t (a boolean default (${call}))`, WRITES],
  ['a check', call => `create table t (a int check (${call}))`, WRITES],
  ['a policy', call => `create table t (); create policy x on t using (${call})`, BOTH],
  ['the check of a policy',
    call => `create table t (); create policy x on t for insert with check (${call})`, WRITES],
  ['a view', call => `create view t as select ${call} as a`, BOTH],
  ['a rule', call => `create table t ();
      create rule x as on insert to t where ${call} do instead nothing`, WRITES],
  ['the condition of a trigger',
    call => `create table t (); create trigger x before update on t for each row
      when (${call}) execute function suppress_redundant_updates_trigger()`, WRITES],
  ['a domain', call => `create domain d as int check (${call}); create table t (a d)`, BOTH],
  ['the default of a domain',
    call => `create domain d as boolean default (${call}); create table t (a d)`, BOTH],
  ['the default of a parameter',
    call => `create function f(a boolean default (${call})) returns boolean stable
        language sql as 'select a';
      create table t (a boolean default f())`, WRITES],
  ['a body in standard SQL', call => `create function f() returns boolean stable language sql
        begin atomic select ${call}; end;
      create table t (a boolean default f())`, WRITES]
]

t.test('calls of built-in functions that change the session are code', async t => {
  for (const [name, schema, expected] of expressions) {
    for (const call of builtIn) {
      t.strictSame(await inSchema([schema(call)], codeOf), expected, `${name}: ${call}`)
    }
    for (const call of harmless) {
      t.strictSame(await inSchema([schema(call)], codeOf), NONE, `${name}: ${call}`)
    }
  }
  const stat = "create view t as select * from ts_stat('select null::tsvector')"
  t.strictSame(await inSchema([stat], codeOf), BOTH)
})

t.test('these are all built-in functions that count', async t => {
  const rows = await sql.unsafe(
    `select distinct proname from pg_proc as p where p.prolang = 12 and p.oid < 16384
      and ${render(callRunsCode(fragment`p.oid`)).text} order by 1`
  )
  const names = rows.map(({ proname }) => String(proname))
  const isXml = (name: string): boolean =>
    /^(?:query|cursor|table|schema|database)_to_xml(?:schema|_and_xmlschema)?$/.test(name)
  t.equal(names.filter(isXml).length, 14)
  t.strictSame(names.filter(name => !isXml(name)), [
    'pg_advisory_lock', 'pg_advisory_lock_shared', 'pg_advisory_unlock', 'pg_advisory_unlock_all',
    'pg_advisory_unlock_shared', 'pg_try_advisory_lock', 'pg_try_advisory_lock_shared',
    'set_config', 'ts_rewrite', 'ts_stat'
  ])
})

t.test('functions that can be read as columns', async t => {
  const schema = `
    create table grandparent (a int);
    create table parent () inherits (grandparent);
    ${mood};
    create table t (b int, hidden int, m mood) inherits (parent);
    create table other (a int);
    create domain d as t;
    create function own(t) returns int language sql volatile as 'select 1';
    create function own_trigger() returns trigger language plpgsql as 'begin return new; end';
    create function inherited(grandparent) returns int language plpgsql as 'begin return 1; end';
    create function by_domain(d) returns int language sql as 'select 1';
    create function of_any(anyelement) returns int language plpgsql as 'begin return 1; end';
    create function of_record(record) returns int language plpgsql as 'begin return 1; end';
    create function variadic_rows(variadic t[]) returns int language sql as 'select 1';
    create function with_default(t, a int default 1) returns int stable language sql
      as 'select 1';
    create function two(t, int) returns int language sql as 'select 1';
    create function of_int(int) returns int language sql as 'select 1';
    create function of_mood(mood) returns int language sql as 'select 1';
    create function of_other(other) returns int language sql as 'select 1';
    create function stable_one(t) returns int stable language sql as 'select 1';
    create function in_c(t) returns int language c as '$libdir/plpgsql', 'plpgsql_validator';
    create procedure not_a_function(t) language sql as 'select 1';
    create function hidden(t) returns int language sql as 'select 1'`
  const expected = {
    by_domain: true,
    hidden: true,
    in_c: false,
    inherited: true,
    of_any: true,
    of_record: true,
    own: true,
    stable_one: false,
    variadic_rows: true,
    with_default: true
  }
  t.strictSame(await inSchema([schema], codeOf), NONE)
  const known = await inSchema([schema], async sql => {
    const types = new ColumnTypes()
    const tables = ['t', 'other', 'missing'].map(name => ({ schema: 'public', name }))
    const [row] = await sql.unsafe(render(columnTypesQuery(tables)).text)
    types.remember(JSON.stringify(row?.['coalesce']))
    const created = await sql<Array<{ name: string }>>`select proname as name from pg_proc
      where pronamespace = 'public'::regnamespace`
    const [own, other, missing] = tables.map(table => types.lookup(table))
    const functions = created.flatMap(({ name }) => {
      const isCode = own?.functions?.get(name)
      return isCode === undefined ? [] : [[name, isCode]]
    })
    return { own, other, missing, functions: Object.fromEntries(functions) as unknown }
  })
  t.strictSame(known.functions, expected)
  t.strictSame(known.own?.code, { reads: false, writes: false })
  t.equal(known.own?.functions?.get('to_json'), false)
  t.equal(known.other?.functions?.get('of_other'), true)
  t.equal(known.missing, undefined)
})

/** Statements that create the function `called`, and whether a call of it can run code. */
const calls: ReadonlyArray<readonly [name: string, schema: string, expected: boolean]> = [
  ['volatile SQL', "create function called() returns int language sql as 'select 1'", true],
  ['stable', "create function called() returns int stable language sql as 'select 1'", false],
  ['C',
    "create function called() returns int language c as '$libdir/plpgsql', 'plpgsql_validator'",
    false],
  ['the domain of a parameter',
    `create function check_it(int) returns boolean language sql as 'select true';
      create domain d as int check (check_it(value));
      create function called(d[]) returns int stable language sql as 'select 1'`, true],
  ['the domain of a column of the result',
    `create function check_it(int) returns boolean language sql as 'select true';
      create domain d as int check (check_it(value)); create table u (a d);
      create function called() returns setof u stable language sql as 'select null::d'`, true],
  ['the cast of a result',
    `${mood}; create function as_text(mood) returns text language sql as 'select null';
      create cast (mood as text) with function as_text(mood);
      create function called() returns mood stable language sql as 'select null::mood'`, true],
  ['a trigger of the table whose rows it returns', `create table u (a int);
      create function code() returns trigger language plpgsql as 'begin return new; end';
      create trigger x before insert on u execute function code();
      create function called() returns setof u stable language sql as 'select * from u'`, false],
  ['the default of a parameter',
    `create function called(a text default set_config('a.b', '', false)) returns text stable
      language sql as 'select a'`, true],
  ['an aggregate', `create function next(int, int) returns int language sql as 'select 1';
      create aggregate called(int) (sfunc = next, stype = int)`, true]
]

t.test('calls of functions', async t => {
  for (const [name, schema, expected] of calls) {
    t.equal(await inSchema([schema], callOf), expected, name)
  }
  const [, schema] = calls[0] as typeof calls[number]
  const known = await inSchema([schema], async sql => {
    const types = new FunctionTypes()
    const name = { schema: 'public', name: 'called' }
    const [row] = await sql.unsafe(render(functionTypesQuery([name])).text)
    types.remember(JSON.stringify(row?.['coalesce']))
    return types.lookup(name)?.variants.map(({ runsCode }) => runsCode)
  })
  t.strictSame(known, [true])
})

t.test('objects of others before pg_catalog are not used', async t => {
  const schema = `create table t (a int);
    create function never(oid, oid) returns boolean immutable language plpgsql
      as 'begin raise exception ''called''; end';
    create operator = (leftarg = oid, rightarg = oid, function = never);
    create type oid as enum ('a');
    set local search_path = public, pg_catalog`
  t.strictSame(await inSchema([schema], codeOf), NONE)
})
