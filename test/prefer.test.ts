/** Preferences and idempotency keys: what changes a batch and is not served is refused, everything else is let pass. */
import t from 'tap'
import { useService } from './support/service.ts'

t.test('preferences', async t => {
  const service = await useService(t, { schema: 'create table t (id int); grant all on t to oneflight_user' })
  const batch = [{ id: 'i', op: 'insert', table: 't', values: [{ id: 1 }] }]
  const rows: ReadonlyArray<readonly [headers: Record<string, string>, code?: string]> = [
    [{ prefer: 'return=representation' }],
    [{ prefer: 'Return = "representation"; x=y, tx=commit, respond-async, wait=10' }],
    [{ prefer: 'handling=lenient, isolation=read-committed, access=read-write,' }],
    [{ prefer: 'tx=rollback' }, 'prefer_invalid'],
    [{ prefer: 'respond-async, TX=Rollback' }, 'prefer_invalid'],
    [{ prefer: 'tx' }, 'prefer_invalid'],
    [{ prefer: 'tx=commit x' }, 'prefer_invalid'],
    [{ prefer: 'return=minimal' }, 'prefer_invalid'],
    [{ prefer: 'isolation=serializable' }, 'prefer_invalid'],
    [{ prefer: 'access=read-only' }, 'prefer_invalid'],
    [{ prefer: 'handling=strict' }, 'prefer_invalid'],
    [{ 'idempotency-key': 'a' }, 'idempotency_key_invalid']
  ]
  let committed = 0
  for (const [headers, code] of rows) {
    const { status, body } = await service.post(batch, { headers })
    if (code === undefined) committed++
    t.match({ status, code: body.error?.code }, { status: code === undefined ? 200 : 400, code }, JSON.stringify(headers))
  }
  t.same(await service.database.sql`select count(*)::int as n from t`, [{ n: committed }])
})
