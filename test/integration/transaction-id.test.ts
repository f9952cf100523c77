/**
 * Tests Oneflight-Txid and Oneflight-Xid: the id of the transaction of a batch that was committed.
 */
import t from 'tap'
import type { Generated } from '../../client/src/index.ts'
import { addEpoch } from '../../src/sql/frame/server-state.ts'
import { useClient } from '../support/client.ts'
import * as op from '../support/operations.ts'
import { useService, type Answer } from '../support/service.ts'

const schema = `
  create table rows (id int generated always as identity, xid text
    default pg_current_xact_id()::text);
  create function write() returns text language sql as
    'insert into rows default values returning xid';
  grant all on rows to oneflight_user`

const idsOf = ({ headers }: Answer): ReadonlyArray<string | null> =>
  ['oneflight-txid', 'oneflight-xid'].map(name => headers.get(name))
const low = (txid: string): string => String(BigInt(txid) % 2n ** 32n)
const insert = op.insert('i', 'rows', [{}])

t.test('a batch that is committed answers the id of its transaction', async t => {
  const service = await useService(t, { schema, keys: true, env: { EXPLAIN: 'on' } })
  const inserted = await service.post([op.select('s', 'rows'), insert])
  const { xid } = inserted.body.data.i[0]
  t.strictSame(idsOf(inserted), [xid, low(xid)])
  const called = await service.post([op.call('c', 'write', {}), op.select('s', 'rows')])
  const { xid: ofFunction } = called.body.data.s[1]
  t.strictSame(idsOf(called), [ofFunction, low(ofFunction)])
  t.match(idsOf(await service.post([op.delete('d', 'rows', { where: { id: { eq: 0 } } })])), [
    /^\d+$/, /^\d+$/
  ], 'no row was deleted')
})

t.test('no other batch does', async t => {
  const service = await useService(t, { schema, keys: true, env: { EXPLAIN: 'on' } })
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
  const service = await useService(t, { schema, keys: true })
  const headers = { 'idempotency-key': '"a"' }
  const first = await service.post([insert], { headers })
  t.equal(first.headers.get('idempotent-replayed'), null)
  await service.post([insert])
  const second = await service.post([insert], { headers })
  t.equal(second.headers.get('idempotent-replayed'), 'true')
  t.equal(second.text, first.text)
  t.strictSame(idsOf(second), idsOf(first))
  t.strictSame(idsOf(second), [first.body.data.i[0].xid, low(first.body.data.i[0].xid)])
})

t.test('the client returns it', async t => {
  const service = await useService(t, { schema, keys: true })
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
