/**
 * Tests the answers to common mistakes: what is wrong, where, and what to write instead.
 */
import t from 'tap'
import type { Issue } from '../../schemas/error.ts'
import type { PlanNode } from '../../src/plan/nodes.ts'
import { describeError } from '../../src/transaction/describe-error.ts'
import * as op from '../support/operations.ts'
import { asCustomer, useShopService } from '../support/database/shop.ts'
import { findFailure } from '../support/issues.ts'
import { useService, type Answer } from '../support/service.ts'
import { bodyOf, slips } from '../slips.ts'

const shop = await useShopService(t)

/** The parts of an error that tell what is wrong. An issue has a path. */
function errorOf ({ status, body: { error } }: Answer): object {
  const [{ code, path, message } = error, ...more] = error.errors ?? []
  return { status, code, ...path === undefined ? {} : { path }, message, more }
}

t.test('every common mistake has its answer, and its repair works', async t => {
  for (const slip of slips) {
    const { mistake, repair, status, code, path, message } = slip
    const options = { headers: asCustomer() }
    const refused = await shop.post(bodyOf(slip, mistake), options)
    t.same(errorOf(refused), {
      status, code, ...path === undefined ? {} : { path }, message, more: []
    }, mistake)
    const accepted = await shop.post(bodyOf(slip, repair), options)
    t.same([accepted.status, accepted.body.error], [200, null], repair)
  }
})

/** The issues of a select that has other members, after operations of these names. */
function issuesOf (members: object, earlier: readonly string[] = []): readonly Issue[] {
  const before = earlier.map(id => op.select(id, 'stock'))
  return findFailure([...before, op.select('own', 'stock', members)])?.details.errors ?? []
}

t.test('the example of a message suits what was sent', async t => {
  type Row = readonly [members: object, path: ReadonlyArray<string | number>, message: string]
  const operators = (text: string): string => `must be an object of operators, for example ${text}.`
  const element = (text: string): string =>
    'Element 0 of "order" must be an object of a column and its direction, ' +
    `for example "order": [${text}].`
  const all = 'Operators: eq, neq, gt, gte, lt, lte, like, ilike, match, imatch, in, nin, ' +
    'between, is, isdistinct, fts, plfts, phfts, wfts, cs, cd, ov, sl, sr, nxr, nxl, adj, ' +
    'has_key, has_keys_any, has_keys_all, not.'
  const rows: readonly Row[] = [
    [{ where: { qty: 3 } }, ['where', 'qty'], `"qty" ${operators('{"qty": {"eq": 10}}')}`],
    [{ where: { sku: null } }, ['where', 'sku'],
      `"sku" ${operators('{"sku": {"eq": "apple"}}')} In SQL, nothing equals null; ` +
      'use {"is": null}.'],
    [{ where: { 'a->"b"': 'pear' } }, ['where', 'a->"b"'],
      `"a->"b"" ${operators('{"a->\\"b\\"": {"eq": "apple"}}')}`],
    [{ where: { sku: { not: 'pear' } } }, ['where', 'sku', 'not'],
      `"not" ${operators('{"not": {"eq": "apple"}}')}`],
    [{ order: ['qty'] }, ['order', 0], element('{"qty": "asc"}')],
    [{ order: ['qty.DESC'] }, ['order', 0], element('{"qty": "desc"}')],
    [{ order: ['q'.repeat(21)] }, ['order', 0], element('{"sku": "asc"}')],
    [{ columns: 'qty' }, ['columns'],
      '"columns" must be an array of columns, for example ["qty"].'],
    [{ columns: [] }, ['columns'], '"columns" must be a non-empty array of at most 1600 elements.'],
    [{ order: Array.from({ length: 1601 }, () => ({ sku: 'asc' })) }, ['order'],
      '"order" must be an array of at most 1600 elements.'],
    // An unknown name is answered with the known one that it resembles.
    [{ where: { qty: { xyz: 1 } } }, ['where', 'qty', 'xyz'], `Unknown operator "xyz". ${all}`],
    [{ filter: {} }, ['filter'],
      'Unknown member "filter". Members: id, op, table, where, columns, distinct, group_by, ' +
      'having, order, after, limit, offset, lock, with, expect, answer, when.'],
    [{ op: 'update', set: { qty: { $increment: 1 } }, all: true }, ['set', 'qty', '$increment'],
      'Unknown modifier "$increment". Did you mean "$inc"? ' +
      'To store the object itself, use {"$value": …}.'],
    [{
      op: 'insert',
      values: [{}],
      on_conflict: { columns: ['sku'], do: 'nothing', index_where: { qty: { '@>': 1 } } }
    }, ['on_conflict', 'index_where', 'qty', '@>'],
    'Unknown operator "@>". Operators: eq, neq, gt, gte, lt, lte, in, is, not.']
  ]
  for (const [members, path, message] of rows) {
    const found = issuesOf(members).map(({ path, message }) => [path, message])
    t.same(found, [[path, message]], JSON.stringify(members).slice(0, 60))
  }
})

t.test('an invalid reference is answered with the operations that it can name', async t => {
  const plain = 'To send the string itself, double its first $.'
  const unquoted = 'The string looks like a reference, but names no earlier operation.'
  const many = Array.from({ length: 11 }, (_, i) => `o${i}`)
  const rows: ReadonlyArray<readonly [earlier: readonly string[], text: string, message: string]> =
    [
      [[], '$x.id', `Unknown operation "x". There is no earlier operation. ${plain}`],
      [many, '$o.0.id',
        `Unknown operation "o". Earlier operations: ${many.slice(0, 10).join(', ')} and 1 more. ` +
        plain],
      // It may be a password.
      [['a'], '$ecret', `${unquoted} Earlier operations: a. ${plain}`],
      [['a'], '$own.id',
        `"own" is this operation itself; a reference must name an earlier operation. ${plain}`]
    ]
  for (const [earlier, text, message] of rows) {
    const issues = issuesOf({ where: { sku: { cs: text } } }, earlier)
    t.same(issues.map(({ message }) => message), [message], text)
  }
})

t.test('an operator of another language is answered with ours', t => {
  const cases: ReadonlyArray<readonly [names: string, operator: string]> = [
    ['= === equals _eq $eq', 'eq'], ['!= <> ne notEqual', 'neq'], ['> greaterThan', 'gt'],
    ['>= ge $gte greater_or_equal', 'gte'], ['< lessThan', 'lt'], ['<= less_than_or_equal', 'lte'],
    ['contains icontains ILIKE', 'ilike'], ['contains has hasEvery @>', 'cs'],
    ['<@ contained_in', 'cd'], ['&& hasSome', 'ov'], ['$startsWith ends_with LIKE', 'like'],
    ['IN any oneOf _in', 'in'], ['notIn NOT_IN', 'nin'], ['is_null exists isNotNull', 'is'],
    ['regex ~', 'match'], ['iregex ~*', 'imatch'], ['BETWEEN range', 'between'],
    ['not.eq not.like notLike', 'not'], ['textSearch', 'wfts'], ['@@ tsquery', 'fts'],
    ['hasKey', 'has_key']
  ]
  for (const [names, operator] of cases) {
    for (const name of names.split(' ')) {
      const [issue] = issuesOf({ where: { s: { [name]: 'x' } } })
      t.match(issue, { code: 'operator_unknown', path: ['where', 's', name] }, name)
      t.match(issue?.message, `"${operator}"`, name)
      const [example] = issue?.message.match(/\{"\w+": [^…]*?[\]"l\d}]\}(?=[ .,])/) ?? []
      if (example === undefined) continue
      t.same(issuesOf({ where: { s: JSON.parse(example) as object } }), [], `${name}: ${example}`)
    }
  }
  const [issue] = issuesOf({ where: { s: { ['x'.repeat(99)]: 1 } } })
  t.match(issue?.message, 'Operators: eq, ')
  t.end()
})

const letters = 'abcdefghijklmnopqrstuvwxyz'.split('')
const schema = `
  create type mood as enum ('ok', 'sad', 'so so');
  create domain temper as mood;
  create type point2 as (x int, y int);
  create type wrapped as (list int[]);
  create table v (id int primary key, i int, j int, n numeric(4, 2), s text, d date, m mood,
    a int[], p point2, w wrapped, data jsonb, checked text);
  create function convert_it() returns trigger language plpgsql as $$ begin
    new.i = new.checked::int;
    return new;
  end $$;
  create trigger convert_it before update of checked on v
    for each row execute function convert_it();
  insert into v (id) values (1);
  grant all on v to oneflight_user;
  create table bare (id int primary key, n int);
  create table numbered (id serial primary key, n int);
  grant select, insert on numbered to oneflight_user;
  create function bare_function() returns int language sql as 'select 1';
  revoke execute on function bare_function from public;
  create table things (id int primary key, name text, data jsonb, raw json, "a ""b" int);
  create view seen as select * from things;
  create function all_things() returns setof things language sql stable as 'select * from things';
  create table checked (id int);
  create function check_it() returns trigger language plpgsql as $$ begin
    execute case new.id when 4 then 'select count(*), c.id from checked c'
      else 'select t.idd from checked t' end;
    return new;
  end $$;
  create trigger check_it before insert on checked for each row execute function check_it();
  create schema other;
  grant usage on schema other to oneflight_user;
  grant all on things, seen, checked to oneflight_user;
  create type letter as enum (${letters.map(letter => `'${letter}'`).join()});
  create table moods (id int, m mood, t temper, ms mood[], s text, l letter);
  create table moody (id int);
  create table secret_moods (id int);
  insert into moods (id) values (1);
  create table other.elsewhere (id int);
  grant select, insert, update on moods, other.elsewhere to oneflight_user;
  create table people (id int, secret text);
  grant select (id) on people to oneflight_user;
  create table hidden (secret text);
  create schema shut; create table shut.things (id int);
  create schema open; grant usage on schema open to oneflight_user;
  create table forms (id int generated always as identity, n int, tags text[], grid int[],
    pair point2, twice int generated always as (n * 2) stored);
  insert into forms (n) values (1), (2), (3), (4);
  grant all on forms to oneflight_user;
  create function many() returns setof int language sql as 'select generate_series(1, 4)';
`
const schemas = { DB_SCHEMAS: 'public,other,shut,open' }
const service = await useService(t, { schema, env: schemas })
const verbose = await service.useAnother(t, {
  env: { ...schemas, ERROR_VERBOSITY: 'verbose', ANON_ROLE: 'oneflight_user' }
})

const faulty = (problem: string): string =>
  `A function, trigger, policy or view is faulty, not the request: ${problem}`

t.test('an error of PostgreSQL has the names of the request', async t => {
  const insert = { op: 'insert', values: [{ id: 1 }] }
  const onConflict = (members: object): object => ({
    ...insert, on_conflict: { columns: ['id'], do: 'update', ...members }
  })
  const update = (set: object): object => ({ op: 'update', set, all: true })
  const missing = 'Table "things" has no column "nam". Did you mean "name"?'
  const misfit = (name: string, column: string, types: string): string =>
    `"${name}" does not work with column "${column}": operator does not exist: ${types}` +
      (['like', 'match'].includes(name)
        ? '. A pattern matches only text; use "eq", "in" or "between" for other types.'
        : '')
  const table = (
    name: string,
    schema: string,
    help = 'For a table of another schema, write <schema>.<table>.'
  ): string => `Table "${name}" does not exist in schema "${schema}". ${help}`
  const rows: ReadonlyArray<readonly [members: object, message: string]> = [
    [{ table: 'other.things' }, table('things', 'other', 'Did you mean "things"?')],
    [{ table: 'a"b', where: { a: { cs: ['x'] } } }, table('a"b', 'public')],
    [{ columns: ['nam'] }, missing],
    [{ ...insert, values: [{ id: 1, nam: 'x' }] }, missing],
    [{ where: { count: { gt: 1 } } }, 'Table "things" has no column "count".'],
    [{ where: { 'name->a': { eq: 1 } } },
      'Column "name" has no path: paths go into json, jsonb, arrays and composites, ' +
      'and in results of functions only into json and jsonb.'],
    [{ where: { 'a "b': { cs: 1 } } }, misfit('cs', 'a "b', 'integer @> integer')],
    [{
      ...insert,
      on_conflict: {
        constraint: 'things_pkey', do: 'update', set: { name: 'x' }, where: { id: { like: '1%' } }
      }
    }, misfit('like', 'id', 'integer ~~ unknown')],
    [{
      ...insert, on_conflict: { columns: ['id'], do: 'nothing', index_where: { raw: { eq: 'x' } } }
    }, misfit('eq', 'raw', 'json = unknown')],
    [update({ name: { $inc: 1 } }), misfit('$inc', 'name', 'text - text')],
    [onConflict({ set: { name: { $mul: 2 } } }), misfit('$mul', 'name', 'text * text')],
    [{ columns: [{ fn: 'sum', column: 'name' }] },
      '"sum" does not work with column "name": function sum(text) does not exist'],
    [{ where: { name: { is: true } } },
      'Column "name": argument of IS TRUE must be type boolean, not type text'],
    [{ order: [{ raw: 'asc' }] },
      'Column "raw": could not identify an ordering operator for type json'],
    [{ columns: ['data->a', { fn: 'count' }] },
      'Column "data" must be in "group_by" or in an aggregate ("fn").'],
    // Messages that name everything already.
    [update({ id: { $col: 'name' } }),
      'column "id" is of type integer but expression is of type text'],
    [{ ...insert, on_conflict: { constraint: 'nope', do: 'nothing' } },
      'constraint "nope" for table "things" does not exist'],
    // Errors of a trigger are about its own statements.
    [{ ...insert, table: 'checked', values: [{ id: 4 }] }, faulty(
      'column "c.id" must appear in the GROUP BY clause or be used in an aggregate function'
    )]
  ]
  for (const [members, message] of rows) {
    const operation = op.select('a', 'things', members)
    const { body } = await service.post([operation])
    t.equal(body.error?.message, message, JSON.stringify(members))
  }
})

t.test('an operator is found in every filter', async t => {
  const where = { id: { like: 'a%' } }
  const other = { table: 'things', on: { id: 'id' }, where }
  const rows = [
    [op.select('a', 'things', { with: { us: other } }), ['with', 'us', 'where', 'id', 'like']],
    [op.update('a', 'things', { set: { id: { $inc: 1 } }, from: other }),
      ['from', 'where', 'id', 'like']],
    [op.insert('a', 'things', undefined, {
      from: { table: 'things', where }, columns: { id: { $col: 'id' } }
    }), ['from', 'where', 'id', 'like']],
    [op.select('a', 'things', { where: { exists: other } }),
      ['where', 'exists', 'where', 'id', 'like']],
    // Either may have caused it.
    [op.select('a', 'things', { where: { ...where, exists: other } }), undefined]
  ] as const
  for (const [operation, path] of rows) {
    const { body: { error } } = await service.post([operation])
    const { code, message } = error
    t.match({ code, message }, {
      code: 'undefined_function', message: '"like" does not work with column "id"'
    })
    t.same(error.path, path, JSON.stringify(operation))
  }
})

t.test('PostgreSQL refuses a column that the service does not know', async t => {
  const noColumn = (name: string): string => `The result of "all_things" has no column "${name}".`
  const rows = [
    [op.call('a', 'all_things', {}, { where: { nam: { eq: 'x' } } }),
      { code: 'undefined_column', message: noColumn('nam'), hint: /the column "name"\.$/ }],
    // count(t)
    [op.call('a', 'all_things', {}, { where: { count: { eq: 1 } } }),
      { code: 'grouping_error', message: noColumn('count') }],
    [op.select('a', 'seen', { where: { ctid: { eq: '(0,1)' } } }),
      { code: 'undefined_column', message: 'There is no column "ctid".' }],
    // The hint of a trigger is about its own statement.
    [op.insert('a', 'checked', [{ id: 6 }]),
      { code: 'schema_fault', hint: /the column "t\.id"\.$/ }]
  ] as const
  for (const [operation, error] of rows) {
    const { body } = await verbose.post([operation])
    t.match(body.error, { path: undefined, ...error }, JSON.stringify(operation))
  }
})

t.test('only names that the role may use are suggested', async t => {
  const { post, database } = service
  const errorOf = async (operation: object): Promise<unknown> =>
    (await post([op.select('a', 'people'), operation])).body.error
  t.match(await errorOf(op.select('o', 'people', { columns: ['secre'] })), {
    code: 'undefined_column', op: 'o', index: 1, message: 'Table "people" has no column "secre".'
  })
  t.match(await errorOf(op.select('o', 'people', { columns: ['ID'] })), {
    message: 'Table "people" has no column "ID". Did you mean "id"?', path: ['columns', 0]
  })
  t.match(await errorOf(op.select('o', 'hidden', { columns: ['secre'] })), {
    code: 'undefined_column', message: 'Table "hidden" has no column "secre".'
  })
  const denied = { code: 'insufficient_privilege', message: /schema shut/, op: 'o', index: 1 }
  for (const table of ['shut.things', 'shut.nothing']) {
    t.match(await errorOf(op.select('o', table, { columns: ['nope'] })), denied)
  }
  const { body, status } = await post([op.select('o', 'nothing')], { role: 'nobody' })
  t.match({ status, ...body.error }, { status: 403, code: 'role_denied' }, 'the role comes first')
  await database.sql`create table open.later (id int); grant select on open.later
    to oneflight_user`.simple()
  t.equal((await post([op.select('o', 'open.later')])).status, 200)
  await database.sql`alter table open.later add more int`
  t.equal((await post([op.select('o', 'open.later', { columns: ['more'] })])).status, 200)
})

t.test('a value that PostgreSQL refuses is answered with its column', async t => {
  const integer = 'invalid input syntax for type integer: "…"'
  const scalar = 'the type integer takes one value, not an array or an object.'
  const help = (name: string): string =>
    `The modifier ${name} works only in "set"; "values" takes the value itself.`
  const where = (filter: object): object => ({ op: 'select', where: filter })
  const insert = (...rows: readonly object[]): object => ({ op: 'insert', values: rows })
  const update = (set: object): object => ({ op: 'update', set, all: true })
  const onConflict = (members: object): object => ({
    ...insert({ id: 1 }), on_conflict: { columns: ['id'], do: 'update', ...members }
  })
  const rows: ReadonlyArray<readonly [operation: object, message: string]> = [
    // PostgreSQL reports the number of the parameter.
    [where({ s: { eq: 'x' }, i: { gt: 'x' } }), `Column "i": ${integer}`],
    [
      where(Object.fromEntries(
        ['s', 'd', 'i'].map(name => [name, { not: { in: ['2020-01-01', '2021-01-01'] } }])
      )), `Column "i": ${integer}`],
    // PostgreSQL reports the position.
    [{
      ...insert({ id: 1 }),
      on_conflict: { columns: ['id'], do: 'nothing', index_where: { i: { eq: 'x' } } }
    }, `Column "i": ${integer}`],
    // The type refuses all of them before anything is sent.
    [insert({ id: 2, i: 1 }, { id: 3, i: 1.5 }, { id: 4, i: 1.5 }),
      'Row 1 of values, column "i": integer holds no digits after the point. 1 more value does ' +
        'not fit, see "errors".'],
    [update({ a: { $append: [1, 'x'] } }), `Column "a": ${integer}`],
    [onConflict({ set: { i: 'x' } }), `Column "i": ${integer}`],
    // A modifier in `values` is data, unless the column cannot store it.
    [insert({ i: { $inc: 1 } }), `Row 0 of values, column "i": ${scalar} ${help('$inc')}`],
    [insert({ p: { $merge: {} } }),
      `Row 0 of values, column "p": the type point2 has no member "$merge". ${help('$merge')}`],
    [insert({ w: { list: { x: 1 } } }),
      'Row 0 of values, column "w", at list: the type integer[] takes an array.'],
    [insert({ i: { $nope: 1 } }),
      `Row 0 of values, column "i": ${scalar} To store JSON text, send it as a string.`],
    // The message quotes no value.
    [where({ s: { match: '(' } }), 'invalid regular expression: parentheses () not balanced'],
    // Values of conditions without a parameter of their own are not compared; see find-value.ts.
    [where({ s: { fts: 'a b' } }), 'syntax error in tsquery: "…"'],
    // The value is that of a trigger, or of another operation.
    [update({ checked: 'x' }), integer],
    [update({ i: '$row.s' }), integer]
  ]
  for (const [operation, message] of rows) {
    const { body } = await service.post(
      [op.insert('row', 'v', [{ id: 9, s: 'apple' }]), { id: 'a', table: 'v', ...operation }]
    )
    t.match(body.error, { op: 'a', message }, JSON.stringify(operation))
  }
  const { body } = await service.post([op.insert('a', 'v', [{ id: 2, data: { $inc: 1 } }])])
  t.same(body.data.a[0].data, { $inc: 1 })
})

t.test('an error of PostgreSQL names the form that is right here', async t => {
  const forms = await service.useAnother(t, {
    env: { MAX_ROWS: '3', ERROR_VERBOSITY: 'verbose' }
  })
  const array = 'Write an array, for example ["apple"].'
  const leaveOut = 'Leave the column out: the database sets it.'
  const insert = (row: object): object => op.insert('o', 'forms', [row])
  const update = (set: object): object => op.update('o', 'forms', { set, where: { n: { eq: 1 } } })
  const rows: ReadonlyArray<readonly [operation: object, status: number, message: RegExp]> = [
    ...['sf', '{', '{a', '{{a},b}'].map(tags =>
      [insert({ tags }), 400, /^Row 0 of values, column "tags": malformed/] as const),
    [insert({ pair: '1' }), 400, /Write an object with the members of the type, for example/],
    [op.select('o', 'forms', { where: { tags: { cs: 'sf' } } }), 400, /Write an array/],
    [insert({ id: 7 }), 400, /"id"\. Leave the column out: the database sets it\.$/],
    [update({ twice: 7 }), 400, /Leave the column out/],
    [op.select('o', 'forms'), 422, new RegExp('^The operation returned more than 3 rows ' +
      '\\(MAX_ROWS\\)\\. Read fewer with "limit", and the next ones with "order" and "after"\\.$')],
    [op.call('o', 'many', {}), 422, /more than 3 rows \(MAX_ROWS\)\. Read fewer with "limit"\.$/],
    [op.update('o', 'forms', { set: { n: 1 }, all: true }), 422,
      /changed more than 3 rows \(MAX_ROWS\)\. Divide them among several operations\.$/]
  ]
  for (const [operation, status, message] of rows) {
    const { body, ...answer } = await forms.post([operation])
    const about = JSON.stringify(operation)
    t.equal(answer.status, status, about)
    t.match(body.error, { op: 'o', message }, about)
    if (/malformed/.test(body.error.message)) {
      t.ok(body.error.message.endsWith(`. ${array}`) || about.includes('pair'), about)
    }
    if (body.error.sqlstate === '428C9') t.equal(body.error.hint, leaveOut)
  }
})

t.test('what the catalogue has is suggested', async t => {
  const known = await service.useAnother(t, { env: { ...schemas, POOL_SIZE: '1' } })
  const { body } = await known.post([op.insert('o', 'moods', [{ l: 'A' }])])
  t.match(body.error, { message: /Allowed: "a", "b", .*, "t" and 6 more\.$/ })
  const allowed = /: "…"\. Allowed: "ok", "sad", "so so"\.$/
  const enums = [
    op.insert('o', 'moods', [{ m: 'okay' }]),
    op.insert('o', 'moods', [{ t: 'okay' }]),
    op.insert('o', 'moods', [{ ms: ['ok', 'okay'] }]),
    op.update('o', 'moods', { set: { m: 'okay' }, where: { id: { eq: 1 } } }),
    op.select('o', 'moods', { where: { m: { eq: 'okay' } } })
  ]
  for (const operation of enums) {
    const { status, body } = await known.post([operation])
    t.match({ status, ...body.error }, { status: 400, op: 'o', message: allowed },
      JSON.stringify(operation))
  }
  const tables: ReadonlyArray<readonly [table: string, help: string]> = [
    ['mood', 'Did you mean "moods"?'],
    ['MOODS', 'Did you mean "moods"?'],
    ['elsewhere', 'Did you mean "other.elsewhere"?'],
    ['other.moods', 'Did you mean "moods"?'],
    // The role may not use it.
    ['secret_mood', 'For a table of another schema, write <schema>.<table>.'],
    ['zebra', 'For a table of another schema, write <schema>.<table>.']
  ]
  for (const [table, help] of tables) {
    const { status, body } = await known.post([op.select('o', table)])
    t.match({ status, ...body.error }, { status: 404, op: 'o' }, table)
    t.ok(body.error.message.endsWith(`. ${help}`), body.error.message)
  }
  // Without access to the catalogue the error has no suggestion.
  await known.database.sql`revoke execute on function
    pg_catalog.has_schema_privilege(name, oid, text) from public`
  const answer = await known.post([op.select('o', 'mood')])
  t.match(answer, {
    status: 404,
    body: { error: { message: 'Table "mood" does not exist in schema "public".' } }
  })
})

t.test('an operator that no part of the operation explains is not named', t => {
  const node: PlanNode = {
    kind: 'insert',
    index: 0,
    id: 'a',
    table: { schema: 'public', name: 'things' },
    output: undefined,
    expect: undefined,
    when: [],
    groups: [],
    conflict: undefined
  }
  const error = { code: '42883', message: 'm', query: 'where "a" ~ 1', position: '11' }
  const context = { node, suggestions: {}, place: undefined }
  t.equal(describeError(error, 'm', context), 'Column "a": m')
  t.equal(describeError({ ...error, code: '23505' }, 'm', context), 'm')
  t.end()
})

t.test('in development, a missing privilege has its GRANT', async t => {
  const of = (op: string, members: object): object => ({ id: 'a', op, table: 'bare', ...members })
  const where = { id: { eq: 1 } }
  const rows: ReadonlyArray<readonly [operation: object, grant: string]> = [
    [of('insert', { values: [{ id: 1 }] }), 'SELECT, INSERT ON "public"."bare"'],
    [of('update', { set: { n: 1 }, where }), 'SELECT, UPDATE ON "public"."bare"'],
    [of('delete', { where }), 'SELECT, DELETE ON "public"."bare"'],
    [of('select', {}), 'SELECT ON "public"."bare"'],
    [of('select', { lock: 'update' }), 'SELECT, UPDATE ON "public"."bare"'],
    [of('insert', { values: [{ id: 1 }], on_conflict: { columns: ['id'], do: 'update' } }),
      'SELECT, INSERT, UPDATE ON "public"."bare"'],
    [{ id: 'a', op: 'call', function: 'bare_function' },
      'EXECUTE ON FUNCTION "public"."bare_function"']
  ]
  for (const [operation, grant] of rows) {
    const { status, body } = await verbose.post([operation])
    t.equal(status, 403)
    t.equal(body.error?.hint, `a privilege is missing: run GRANT ${grant} TO "oneflight_user"`)
  }
  const numbered = await verbose.post([
    { id: 'a', op: 'insert', table: 'numbered', values: [{ n: 1 }] }
  ])
  t.match(numbered.body.error?.hint, /grant .* permission denied for sequence numbered_id_seq$/)
  const anonymous = await verbose.post([of('select', {})], { role: null })
  t.match(anonymous.body.error?.hint, /^no token was sent\. Send one; if .*, run GRANT SELECT ON/)
  const denied = await verbose.post([of('select', {})], { role: 'nobody_has_this_name' })
  t.equal(denied.body.error?.hint, 'the role does not exist')
})
