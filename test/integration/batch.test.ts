/**
 * Tests the id of the transaction of a batch (Oneflight-Txid and Oneflight-Xid), that a trigger
 * cannot end it, and what `"answer": "count"` needs and refuses. The model counts the rows.
 */
import t from 'tap'
import type { Generated } from '../../client/src/index.ts'
import { addEpoch } from '../../src/sql/frame/server-state.ts'
import { expectReplay, useService, type Answer } from '../support/service.ts'
import { useClient } from '../support/client.ts'
import * as op from '../support/operations.ts'
import { issuesOf } from '../support/issues.ts'

const schema = `
  create view two as values (1), (2);
  create table rows (id int generated always as identity, xid text
    default pg_current_xact_id()::text);
  create function write() returns text language sql as
    'insert into rows default values returning xid';
  create table secret (name text);
  revoke select on secret from oneflight_user;
  create table trap (command text);
  create function trap() returns trigger language plpgsql as $$
    begin execute new.command; return new; end $$;
  create trigger trap before insert on trap for each row execute function trap();
`
const service = await useService(t, { schema, keys: true, env: { EXPLAIN: 'on' } })

t.test('a trigger cannot end the transaction, and its notices are no answer', async t => {
  const notices = "do $x$ begin for i in 1..3000 loop raise notice 'a notice'; end loop; end $x$"
  const commands = [
    [notices], ['discard plans'],
    ['copy rows to stdout', 'feature_not_supported'], ['commit', 'feature_not_supported']
  ] as const
  // Once more with prepared statements.
  for (const [command, code] of [...commands, ...commands]) {
    const trap = op.insert('t', 'trap', [{ command }], { returning: [] })
    const { body } = await service.post([trap, op.select('s', 'two')])
    t.equal(body.error?.code, code, command)
  }
})

const idsOf = ({ headers }: Answer): ReadonlyArray<string | null> =>
  ['oneflight-txid', 'oneflight-xid'].map(name => headers.get(name))
const low = (txid: string): string => String(BigInt(txid) % 2n ** 32n)
const insert = op.insert('i', 'rows', [{}])

t.test('a batch that is committed answers the id of its transaction', async t => {
  const inserted = await service.post([op.select('s', 'rows'), insert])
  const { xid } = inserted.body.data.i[0]
  t.strictSame(idsOf(inserted), [xid, low(xid)])
  const called = await service.post([op.call('c', 'write', {}), op.select('s', 'rows')])
  const { xid: ofFunction } = called.body.data.s[1]
  t.strictSame(idsOf(called), [ofFunction, low(ofFunction)])
  t.match(idsOf(await service.post([op.delete('d', 'rows', { where: { id: { eq: 0 } } })])), [
    /^\d+$/, /^\d+$/
  ], 'no row was deleted')
  const headers = { 'idempotency-key': '"s"' }
  const kept = await service.post([op.select('s', 'rows')], { headers })
  t.match(idsOf(kept), [/^\d+$/, /^\d+$/], 'its result was stored')
})

t.test('no other batch does', async t => {
  const none = [null, null]
  t.strictSame(idsOf(await service.post([op.select('s', 'rows')])), none)
  for (const prefer of ['tx=rollback', 'explain']) {
    const answer = await service.post([insert], { headers: { prefer } })
    t.equal(answer.status, 200)
    t.strictSame(idsOf(answer), none, prefer)
  }
  t.strictSame(idsOf(await service.post([insert, op.select('s', 'nowhere')])), none, 'it failed')
})

t.test('a replay answers the id of the first request', async t => {
  const headers = { 'idempotency-key': '"a"' }
  const first = await service.post([insert], { headers })
  t.equal(first.headers.get('idempotent-replayed'), null)
  await service.post([insert])
  const second = await service.post([insert], { headers })
  expectReplay(t, second, first)
  t.strictSame(idsOf(second), idsOf(first))
  t.strictSame(idsOf(second), [first.body.data.i[0].xid, low(first.body.data.i[0].xid)])
})

t.test('the client returns it', async t => {
  const client = useClient<{ rows: { id: Generated<number>, xid: Generated<string> } }>(service)
  const { txid, xid } = await client.batch(b => b.insert('rows', [{}]))
  t.match(txid, /^\d+$/)
  t.equal(xid, Number(BigInt(txid as string) % 2n ** 32n))
  t.match(await client.batch(b => b.select('rows')), { txid: undefined, xid: undefined })
})

t.test('the epoch of an id', async t => {
  const epoch = 2n ** 32n
  for (const [xid, next] of [
    [3n, 4n], [3n, epoch], [epoch - 1n, epoch + 3n], [epoch + 3n, epoch + 4n],
    [5n * epoch + 7n, 6n * epoch + 6n], [2n ** 63n + 9n, 2n ** 63n + 10n]
  ] as const) {
    t.equal(addEpoch(String(BigInt.asUintN(32, xid)), String(next)), String(xid))
  }
})

t.test('an insert whose number of rows is returned needs no SELECT privilege', async t => {
  const { body } = await service.post([op.insert('i', 'secret', [{ name: 'x' }], {
    answer: 'count'
  })])
  t.same(body.data, { i: 1 })
})

t.test('with numbers, MAX_ROWS and mistakes fail the batch', async t => {
  const { post } = await useService(t, { schema, env: { MAX_ROWS: '1' } })
  const count = (answer: unknown): readonly object[] => [op.select('s', 'two', { answer })]
  t.equal((await post(count('count'))).body.error?.code, 'rows_limit')
  t.same(issuesOf(count(1)), ['member_invalid answer'])
})
