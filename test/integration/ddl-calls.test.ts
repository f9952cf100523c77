/**
 * Tests that each kind of call, as the first one after a change of its function, is answered as by
 * a service that starts after the change.
 */
import t from 'tap'
import { nameCase, useCompared, type Batch } from '../support/compared.ts'
import * as op from '../support/operations.ts'
import { isTaken } from '../support/runs.ts'

const item = op.select('i', 'items', { where: { id: { eq: 1 } } })

/** Calls of a function `f(amount, at)`. */
const words: Readonly<Record<string, (name: string) => Batch>> = {
  'a number': name => [op.call('o', name, { amount: 3 })],
  'a string': name => [op.call('o', name, { amount: '3' })],
  'JSON and a number': name => [op.call('o', name, { amount: 3, at: { k: [1] } })],
  NULL: name => [op.call('o', name, { amount: null, at: null })],
  'a reference to a number': name => [item, op.call('o', name, { amount: '$i.0.n' })],
  'a reference to a text': name => [item, op.call('o', name, { amount: '$i.0.s' })],
  'a reference to JSON': name => [item, op.call('o', name, { amount: 3, at: '$i.0.j' })],
  'a reference to NULL': name => [item, op.call('o', name, { amount: '$i.0.z' })],
  'a row': name => [item, op.call('o', name, { amount: 3, at: '$i.0' })],
  'another argument': name => [op.call('o', name, { amount: 3, more: 4 })],
  'no argument': name => [op.call('o', name, {})],
  'a column of the result': name => [op.call('o', name, { amount: 3 }, { columns: ['x'] })],
  'a result that is read': name => [
    op.call('o', name, { amount: 3 }),
    op.select('s', 'items', { where: { s: { eq: { $first: ['$o.0.x', '$o.0.x'] } } } })
  ]
}

const body = "language sql stable as $$ select amount::text || '/' || at::text $$"
const create = `create function $T(amount numeric, at jsonb default '[]') returns text ${body}`
const again = (text: string): string => `drop function $T(numeric, jsonb); ${text}`

const changes: Readonly<Record<string, string>> = {
  'the body is replaced': `create or replace function $T(amount numeric, at jsonb default '[]')
    returns text language sql stable as $$ select 'other' $$`,
  'it becomes volatile': `create or replace function $T(amount numeric, at jsonb default '[]')
    returns text language plpgsql as $$ begin return amount; end $$`,
  'its parameters have other types': again(
    `create function $T(amount text, at json default '[]') returns text ${body}`
  ),
  'its parameter becomes JSON': again(
    `create function $T(amount jsonb, at jsonb default '[]') returns text ${body}`
  ),
  'its parameter becomes a list': again(
    `create function $T(amount numeric[], at jsonb default '[]') returns text ${body}`
  ),
  'its parameter becomes variadic': again(
    `create function $T(variadic amount numeric[]) returns text language sql stable as
      $$ select amount::text $$`
  ),
  'its parameter becomes a domain': again(`create domain small$N as int check (value < 3);
    create function $T(amount small$N, at jsonb default '[]') returns text ${body}`),
  'its parameter becomes a composite': again(`create type pair$N as (k int[], n int);
    create function $T(amount int, at pair$N default null) returns text ${body}`),
  'its parameter takes any type': again(
    `create function $T(amount anyelement, at jsonb default '[]') returns text ${body}`
  ),
  'its parameters change their order': again(
    `create function $T(at jsonb default '[]', amount numeric default 1) returns text ${body}`
  ),
  'a parameter is renamed': again(`create function $T(amount numeric, more int default 2)
    returns text language sql stable as $$ select amount::text || more::text $$`),
  'it is strict': again(
    `create function $T(amount numeric, at jsonb default '[]') returns text strict ${body}`
  ),
  'an overload is added': 'create function $T(amount text, at jsonb default null) returns text ' +
    "language sql stable as $$ select 'text' $$",
  'an overload with more parameters is added': 'create function $T(amount numeric, more int) ' +
    "returns text language sql stable as $$ select 'more' $$",
  'it is dropped': 'drop function $T(numeric, jsonb)',
  'it returns rows': again(`create function $T(amount numeric, at jsonb default '[]')
    returns table (x text, y int) language sql stable as $$ select 'a', 1 $$`),
  'it returns nothing': again(`create function $T(amount numeric, at jsonb default '[]')
    returns void language sql stable as $$ select $$`),
  'it may not be executed': 'revoke execute on function $T(numeric, jsonb) from public',
  'another function takes the name': `alter function $T(numeric, jsonb) rename to old$N;
    create function new$N(amount int, at text default 'x') returns int language sql stable as
      $$ select amount $$; alter function new$N(int, text) rename to t$N`
}

const schema = `
  create table items (id int primary key, n int, s text, j jsonb, z int);
  insert into items values (1, 3, '3', '{"k": [1]}', null);`

t.test('each call after each change equals that of a new service', async t => {
  const { compare } = await useCompared(t, schema)
  for (const [i, [name, change]] of Object.entries(changes).entries()) {
    const cases = Object.entries(words).filter((_, j) => isTaken(i + j, 3)).map(([word, build]) =>
      nameCase(word, undefined, ({ table }) => build(table)))
    t.same(await compare(cases, { create, change }), [], name)
  }
})
