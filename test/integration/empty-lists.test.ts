/**
 * Tests that `in` with an empty array matches no row, in all runs of a batch, and that it is
 * refused where it would match every row.
 */
import t from 'tap'
import { assertIssues } from '../support/issues.ts'
import { expectSame, useRuns } from '../support/runs-of-batch.ts'
import { useService } from '../support/service.ts'

const schema = `
  create domain positive as int check (value > 0);
  create type mood as enum ('calm', 'wild');
  create table items (id int primary key, name text, price numeric, p positive, m mood,
    data jsonb);
  insert into items values (1, 'a', 1.50, 1, 'calm', '{"k": 1}'), (2, null, null, null, null, null);
  grant all on items to oneflight_user;
`
const table = 'items'
const on = { id: 'id' }
const service = await useService(t, { schema })

t.test('an empty list matches no row, in all runs of a batch', async t => {
  const runs = await useRuns(t, { schema, tables: [table] })
  for (const column of ['id', 'name', 'price', 'p', 'm', 'data', 'data->k', 'data->>k']) {
    const none = { [column]: { in: [] } }
    const other = { or: [none, { id: { in: [2] } }] }
    const select = (id: string, where: object): object =>
      ({ id, op: 'select', table, where, columns: ['id'] })
    const batch = [
      select('none', none),
      select('other', other),
      select('twice', { not: { [column]: { not: { in: [] } } } }),
      select('inner', { exists: { table, on, where: none } }),
      { id: 'd', op: 'delete', table, where: none },
      { id: 'u', op: 'update', table, set: { name: 'x' }, where: other, returning: ['id'] }
    ]
    const expected = [[], [{ id: 2 }], [], [], [], [{ id: 2 }]]
    const result = await runs.run(batch)
    expectSame(t, result, column)
    t.same(result.checked.results?.map(rows => JSON.parse(rows) as unknown), expected, column)
    t.same(result.used, batch.map(() => 'aggregated'), column)
    for (const attempt of [1, 2, 3]) {
      const { body, text } = await service.post(batch)
      t.same(Object.values(body.data ?? {}), expected, `${column}, attempt ${attempt}: ${text}`)
    }
  }
})

t.test('an empty list that would match every row is refused', async t => {
  const refused: ReadonlyArray<readonly [where: object, path: string]> = [
    [{ id: { nin: [] } }, 'id.nin'],
    [{ id: { not: { nin: [] } } }, 'id.not.nin'],
    [{ id: { not: { in: [] } } }, 'id.not.in'],
    [{ not: { id: { in: [] } } }, 'not.id.in'],
    [{ not: { not: { id: { not: { in: [] } } } } }, 'not.not.id.not.in'],
    [{ not_exists: { table, on, where: { id: { in: [] } } } }, 'not_exists.where.id.in'],
    [{ not: { exists: { table, on, where: { id: { in: [] } } } } }, 'not.exists.where.id.in']
  ]
  assertIssues(t, refused.map(([where, path]) =>
    [{ op: 'delete', table, where }, `operand_invalid where.${path}`]
  ))
  const where = { not_exists: { table, on, where: { not: { id: { in: [] } } } } }
  const { body } = await service.post([{ id: 's', op: 'select', table, where }])
  t.same(body.data, { s: [] }, 'an even number of not')
})
