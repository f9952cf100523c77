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

type Code = readonly [reads: boolean, writes: boolean, computed: readonly string[]]

/** The code of the relation `t`. */
async function codeOf (sql: TransactionSql): Promise<Code> {
  const [row] = await sql.unsafe(
    `select ${render(codeOfRelation(fragment`c.oid`)).text} as code
      from pg_class as c where c.oid operator(pg_catalog.=) 't'::regclass`
  )
  return row?.['code'] as Code
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
const kinds: ReadonlyArray<{
  readonly name: string
  readonly language: 'plpgsql' | 'sql' | 'c'
  readonly volatility: 'volatile' | 'stable' | 'immutable'
}> = [
  { name: 'volatile plpgsql', language: 'plpgsql', volatility: 'volatile' },
  { name: 'volatile SQL', language: 'sql', volatility: 'volatile' },
  { name: 'stable', language: 'plpgsql', volatility: 'stable' },
  { name: 'immutable', language: 'plpgsql', volatility: 'immutable' },
  { name: 'C', language: 'c', volatility: 'volatile' }
]

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

interface Carrier {
  readonly name: string
  /** What exists before the function. */
  readonly before?: string
  /** The function; FILTER by default. */
  readonly signature?: string
  /** What calls it. */
  readonly schema: string
  readonly expected: readonly [reads: boolean, writes: boolean]
}

const FILTER = 'code(int) returns boolean'
const trigger = 'code() returns trigger'
const mood = "create type mood as enum ('good')"
const domain = 'create domain d as int check (code(value))'
const onInsert = 'before insert on t for each row execute function'
const notify = `create trigger x ${onInsert} code()`

const carriers: readonly Carrier[] = [
  { name: 'no call', schema: 'create table t (a int)', expected: NONE },
  {
    name: 'an identity column',
    schema: 'create table t (a int generated always as identity primary key)',
    expected: NONE
  },
  {
    name: 'a default',
    schema: 'create table t (a boolean default code(1))',
    expected: WRITES
  },
  {
    name: 'a generated column',
    schema: 'create table t (a int, b boolean generated always as (code(a)) stored)',
    expected: WRITES
  },
  { name: 'a check', schema: 'create table t (a int check (code(a)))', expected: WRITES },
  {
    name: 'an index expression',
    schema: 'create table t (a int); create index on t (code(a))',
    expected: BOTH
  },
  {
    name: 'an index predicate',
    schema: 'create table t (a int); create index on t (a) where code(a)',
    expected: BOTH
  },
  // Triggers.
  {
    name: 'a trigger',
    signature: trigger,
    schema: `create table t (); ${notify}`,
    expected: WRITES
  },
  {
    name: 'a trigger of a statement',
    signature: trigger,
    schema: 'create table t (); create trigger x after delete on t execute function code()',
    expected: WRITES
  },
  {
    name: 'a disabled trigger',
    signature: trigger,
    schema: `create table t (); ${notify}; alter table t disable trigger x`,
    expected: NONE
  },
  {
    name: 'a trigger for replicas',
    signature: trigger,
    schema: `create table t (); ${notify}; alter table t enable replica trigger x`,
    expected: WRITES
  },
  {
    name: 'a trigger of TRUNCATE',
    signature: trigger,
    schema: 'create table t (); create trigger x after truncate on t execute function code()',
    expected: NONE
  },
  {
    name: 'the condition of a trigger',
    schema: `create table t (a int); create trigger x before update on t for each row
      when (code(new.a)) execute function suppress_redundant_updates_trigger()`,
    expected: WRITES
  },
  {
    name: 'a trigger of a foreign table',
    signature: trigger,
    schema: `create foreign data wrapper w; create server s foreign data wrapper w;
      create foreign table t () server s; ${notify}`,
    expected: WRITES
  },
  // Rules and views.
  {
    name: 'a rule',
    schema: 'create table t (); create rule x as on insert to t do also select code(1)',
    expected: WRITES
  },
  {
    name: 'the condition of a rule',
    schema: `create table t (a int);
      create rule x as on update to t where code(old.a) do instead nothing`,
    expected: WRITES
  },
  {
    name: 'a disabled rule',
    schema: `create table t (); create rule x as on insert to t do also select code(1);
      alter table t disable rule x`,
    expected: NONE
  },
  {
    name: 'a table that a rule writes',
    schema: `create table u (a boolean default code(1)); create table t ();
      create rule x as on insert to t do also insert into u default values`,
    expected: WRITES
  },
  { name: 'a view', schema: 'create view t as select code(1) as a', expected: BOTH },
  {
    name: 'a view over a view',
    schema: 'create view v as select code(1) as a; create view t as select * from v',
    expected: BOTH
  },
  {
    name: 'a view over a table with a default',
    schema: `create table u (a boolean default code(1)); create view v as select * from u;
      create view t as select * from v`,
    expected: WRITES
  },
  {
    name: 'a default of a view',
    schema: `create table u (a boolean); create view t as select * from u;
      alter view t alter column a set default code(1)`,
    expected: WRITES
  },
  {
    name: 'a trigger of a view',
    signature: trigger,
    schema: `create view t as select 1 as a;
      create trigger x instead of insert on t for each row execute function code()`,
    expected: WRITES
  },
  {
    name: 'a materialized view, although a select does not run it',
    schema: 'create materialized view t as select code(1) as a with no data',
    expected: BOTH
  },
  // Policies.
  {
    name: 'a policy',
    schema: 'create table t (a int); create policy x on t using (code(a))',
    expected: BOTH
  },
  {
    name: 'a policy for INSERT',
    schema: 'create table t (a int); create policy x on t for insert with check (code(a))',
    expected: WRITES
  },
  {
    name: 'a policy for UPDATE, which a select with a lock needs',
    schema: 'create table t (a int); create policy x on t for update using (code(a))',
    expected: BOTH
  },
  {
    name: 'a policy of a table that a policy reads',
    schema: `create table u (a int); create policy x on u using (code(a)); create table t (a int);
      create policy x on t using (exists (select from u where u.a = t.a))`,
    expected: BOTH
  },
  {
    name: 'a trigger of a table that a policy reads',
    signature: trigger,
    schema: `create table u (a int); create trigger x before insert on u execute function code();
      create table t (a int); create policy x on t using (exists (select from u where u.a = t.a))`,
    expected: NONE
  },
  // Partitions and inheritance.
  {
    name: 'the key of a partitioned table',
    schema: 'create table t (a int) partition by hash (code(a))',
    expected: WRITES
  },
  {
    name: 'the key of the parent of a partition',
    schema: `create table p (a int) partition by hash (code(a));
      create table q partition of p for values with (modulus 1, remainder 0)
        partition by list (a);
      create table t partition of q for values in (1)`,
    expected: WRITES
  },
  {
    name: 'a trigger of a partition',
    signature: trigger,
    schema: `create table t (a int) partition by list (a);
      create table p partition of t for values in (1) partition by list (a);
      create table q partition of p for values in (1);
      create trigger x before insert on q for each row execute function code()`,
    expected: WRITES
  },
  {
    name: 'a trigger of another partition',
    signature: trigger,
    schema: `create table p (a int) partition by list (a);
      create table t partition of p for values in (1);
      create table u partition of p for values in (2);
      create trigger x before insert on u for each row execute function code()`,
    expected: NONE
  },
  {
    name: 'a child of inheritance',
    schema: 'create table t (a int); create table u (check (code(a))) inherits (t)',
    expected: WRITES
  },
  // Foreign keys.
  ...['on delete cascade', 'on update cascade', 'on delete set null', 'on update set default']
    .map(action => ({
      name: `a foreign key ${action}`,
      signature: trigger,
      schema: `create table t (a int primary key); create table u (a int references t ${action});
        create trigger x after update on u execute function code()`,
      expected: WRITES
    })),
  {
    name: 'foreign keys over two tables',
    schema: `create table t (a int primary key);
      create table u (a int primary key references t on delete cascade);
      create table v (a int check (code(a)) references u on delete cascade)`,
    expected: WRITES
  },
  {
    name: 'a foreign key without an action',
    schema: `create table t (a int primary key);
      create table u (a int check (code(a)) references t)`,
    expected: NONE
  },
  {
    name: 'the table that a foreign key references',
    schema: `create table u (a int primary key check (code(a)));
      create table t (a int references u on delete cascade)`,
    expected: NONE
  },
  // Types.
  { name: 'a domain', schema: `${domain}; create table t (a d)`, expected: BOTH },
  {
    name: 'the default of a domain',
    schema: 'create domain d as boolean default code(1); create table t (a d)',
    expected: BOTH
  },
  {
    name: 'a domain over an array of a composite type',
    schema: `${domain}; create type c as (a d[]); create domain e as c[]; create domain f as e;
      create table t (a f)`,
    expected: BOTH
  },
  {
    name: 'a domain in the row type of another table',
    schema: `${domain}; create table u (a d); create table t (a u)`,
    expected: BOTH
  },
  {
    name: 'a check of another table with the row type of a column',
    schema: 'create table u (a int check (code(a))); create table t (a u)',
    expected: NONE
  },
  {
    name: 'a cast',
    before: mood,
    signature: 'code(mood) returns text',
    schema: 'create cast (mood as text) with function code(mood); create table t (a mood)',
    expected: BOTH
  },
  {
    name: 'a cast to a type',
    before: mood,
    signature: 'code(text) returns mood',
    schema: 'create cast (text as mood) with function code(text); create table t (a mood[])',
    expected: BOTH
  },
  {
    name: 'a cast of a type that the table does not have',
    before: mood,
    signature: 'code(mood) returns text',
    schema: 'create cast (mood as text) with function code(mood); create table t (a text)',
    expected: NONE
  },
  {
    name: 'a cast between built-in types',
    signature: 'code(point) returns int',
    schema: 'create cast (point as int) with function code(point); create table t (a point)',
    expected: BOTH
  },
  {
    name: 'an operator',
    before: mood,
    signature: 'code(mood, text) returns boolean',
    schema: `create operator = (leftarg = mood, rightarg = text, function = code);
      create table t (a mood)`,
    expected: BOTH
  },
  {
    name: 'an operator of a type that the table does not have',
    before: mood,
    signature: 'code(mood, text) returns boolean',
    schema: `create operator = (leftarg = mood, rightarg = text, function = code);
      create table t (a text)`,
    expected: NONE
  },
  {
    name: 'an operator of built-in types',
    signature: 'code(point, text) returns boolean',
    schema: `create operator = (leftarg = point, rightarg = text, function = code);
      create table t (a point)`,
    expected: BOTH
  },
  {
    name: 'an operator in a view',
    signature: 'code(int, mood) returns boolean',
    before: mood,
    schema: `create operator === (leftarg = int, rightarg = mood, function = code);
      create view t as select 1 === 'good'::mood as a`,
    expected: BOTH
  },
  {
    name: 'an operator class',
    signature: 'code(point, point) returns int',
    schema: `create operator class x default for type point using btree as
      function 1 code(point, point); create table t (a point)`,
    expected: BOTH
  },
  {
    name: 'an operator class of a range',
    before: 'create type pair as (a int, b int)',
    signature: 'code(pair, pair) returns int',
    schema: `create operator class x for type pair using btree as function 1 code(pair, pair);
      create type r as range (subtype = pair, subtype_opclass = x); create table t (a r)`,
    expected: BOTH
  },
  {
    name: 'the difference of a range',
    signature: 'code(int, int) returns float8',
    schema: 'create type r as range (subtype = int, subtype_diff = code); create table t (a r)',
    expected: BOTH
  },
  {
    name: 'the difference of a multirange',
    signature: 'code(int, int) returns float8',
    schema: `create type r as range (subtype = int, subtype_diff = code,
      multirange_type_name = m); create table t (a m)`,
    expected: BOTH
  },
  // Functions that others call.
  {
    name: 'an aggregate in a view',
    signature: 'code(int, int) returns int',
    schema: `create aggregate total(int) (sfunc = code, stype = int);
      create view t as select total(a) as a from (values (1)) as v (a)`,
    expected: BOTH
  },
  {
    name: 'an aggregate with the name of one that statements call',
    signature: 'code(int, text) returns int',
    schema: 'create aggregate sum(text) (sfunc = code, stype = int); create table t (a text)',
    expected: BOTH
  },
  {
    name: 'an aggregate that nothing calls',
    signature: 'code(int, text) returns int',
    schema: 'create aggregate total(text) (sfunc = code, stype = int); create table t (a text)',
    expected: NONE
  },
  {
    name: 'a function with the name of one that statements call',
    signature: 'count(int) returns int',
    schema: 'create table t (a int)',
    expected: BOTH
  },
  {
    name: 'the default of a parameter',
    schema: `create function outside(a boolean default code(1)) returns boolean stable
        language sql as 'select a';
      create table t (a boolean default outside())`,
    expected: WRITES
  },
  {
    name: 'a body in standard SQL',
    schema: `create function outside() returns boolean stable language sql
        begin atomic select code(1); end;
      create table t (a boolean default outside())`,
    expected: WRITES
  },
  {
    name: 'a table that a body in standard SQL reads',
    schema: `create table u (a int); create policy x on u using (code(a));
      create function outside() returns bigint stable language sql
        begin atomic select count(*) from u; end;
      create view t as select outside() as a`,
    expected: BOTH
  },
  {
    name: 'the domain that a function returns',
    schema: `${domain};
      create function outside() returns d immutable language plpgsql as 'begin return 1; end';
      create table t (a int default outside())`,
    expected: WRITES
  }
]

t.test('operations run code if a function is VOLATILE and not in C', async t => {
  for (const kind of kinds) {
    for (const { name, before = '', signature = FILTER, ...carrier } of carriers) {
      if (kind.language === 'sql' && signature === trigger) continue
      const [create, alter] = createFunction(signature, kind)
      const [reads, writes] = await inSchema([before, create, carrier.schema, alter], codeOf)
      const isCode = kind.volatility === 'volatile' && kind.language !== 'c'
      t.strictSame([reads, writes], isCode ? carrier.expected : NONE, `${name}: ${kind.name}`)
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
  expected: Carrier['expected']
]> = [
  ['a default', call => `create table t (a boolean default (${call}))`, WRITES],
  ['a check', call => `create table t (a int check (${call}))`, WRITES],
  ['a policy', call => `create table t (); create policy x on t using (${call})`, BOTH],
  [
    'the check of a policy',
    call => `create table t (); create policy x on t for insert with check (${call})`,
    WRITES
  ],
  ['a view', call => `create view t as select ${call} as a`, BOTH],
  [
    'a rule',
    call => `create table t ();
      create rule x as on insert to t where ${call} do instead nothing`,
    WRITES
  ],
  [
    'the condition of a trigger',
    call => `create table t (); create trigger x before update on t for each row
      when (${call}) execute function suppress_redundant_updates_trigger()`,
    WRITES
  ],
  ['a domain', call => `create domain d as int check (${call}); create table t (a d)`, BOTH],
  [
    'the default of a domain',
    call => `create domain d as boolean default (${call}); create table t (a d)`,
    BOTH
  ],
  [
    'the default of a parameter',
    call => `create function f(a boolean default (${call})) returns boolean stable
        language sql as 'select a';
      create table t (a boolean default f())`,
    WRITES
  ],
  [
    'a body in standard SQL',
    call => `create function f() returns boolean stable language sql
        begin atomic select ${call}; end;
      create table t (a boolean default f())`,
    WRITES
  ]
]

t.test('calls of built-in functions that change the session are code', async t => {
  for (const [name, schema, expected] of expressions) {
    for (const call of builtIn) {
      const [reads, writes] = await inSchema([schema(call)], codeOf)
      t.strictSame([reads, writes], expected, `${name}: ${call}`)
    }
    for (const call of harmless) {
      const [reads, writes] = await inSchema([schema(call)], codeOf)
      t.strictSame([reads, writes], NONE, `${name}: ${call}`)
    }
  }
  const stat = "create view t as select * from ts_stat('select null::tsvector')"
  t.strictSame(await inSchema([stat], codeOf), [true, true, []])
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
    'pg_advisory_lock',
    'pg_advisory_lock_shared',
    'pg_advisory_unlock',
    'pg_advisory_unlock_all',
    'pg_advisory_unlock_shared',
    'pg_try_advisory_lock',
    'pg_try_advisory_lock_shared',
    'set_config',
    'ts_rewrite',
    'ts_stat'
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
  const names = [
    'by_domain',
    'hidden',
    'inherited',
    'of_any',
    'of_record',
    'own',
    'variadic_rows',
    'with_default'
  ]
  t.strictSame(await inSchema([schema], codeOf), [false, false, names])
  const known = await inSchema([schema], async sql => {
    const types = new ColumnTypes()
    const tables = ['t', 'other', 'missing'].map(name => ({ schema: 'public', name }))
    const [row] = await sql.unsafe(render(columnTypesQuery(tables)).text)
    types.remember(JSON.stringify(row?.['coalesce']))
    return tables.map(table => types.lookup(table)?.code)
  })
  t.strictSame(known[0], {
    reads: false,
    writes: false,
    computed: new Set(names.filter(name => name !== 'hidden'))
  }, 'without those that have the name of a column')
  t.ok(known[1]?.computed.has('of_other'))
  t.equal(known[2], undefined)
})

/** Statements that create the function `called`, and whether a call of it can run code. */
const calls: ReadonlyArray<readonly [name: string, schema: string, expected: boolean]> = [
  ['volatile SQL', "create function called() returns int language sql as 'select 1'", true],
  ['stable', "create function called() returns int stable language sql as 'select 1'", false],
  [
    'C',
    "create function called() returns int language c as '$libdir/plpgsql', 'plpgsql_validator'",
    false
  ],
  [
    'the domain of a parameter',
    `create function check_it(int) returns boolean language sql as 'select true';
      create domain d as int check (check_it(value));
      create function called(d[]) returns int stable language sql as 'select 1'`,
    true
  ],
  [
    'the domain of a column of the result',
    `create function check_it(int) returns boolean language sql as 'select true';
      create domain d as int check (check_it(value)); create table u (a d);
      create function called() returns setof u stable language sql as 'select null::d'`,
    true
  ],
  [
    'the cast of a result',
    `${mood}; create function as_text(mood) returns text language sql as 'select null';
      create cast (mood as text) with function as_text(mood);
      create function called() returns mood stable language sql as 'select null::mood'`,
    true
  ],
  [
    'a trigger of the table whose rows it returns',
    `create table u (a int);
      create function code() returns trigger language plpgsql as 'begin return new; end';
      create trigger x before insert on u execute function code();
      create function called() returns setof u stable language sql as 'select * from u'`,
    false
  ],
  [
    'the default of a parameter',
    `create function called(a text default set_config('a.b', '', false)) returns text stable
      language sql as 'select a'`,
    true
  ],
  [
    'an aggregate',
    `create function next(int, int) returns int language sql as 'select 1';
      create aggregate called(int) (sfunc = next, stype = int)`,
    true
  ]
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
  t.strictSame(await inSchema([schema], codeOf), [false, false, []])
})
