/**
 * Tests that `in` with an empty array matches no row, in all runs of a batch, and that it is
 * refused where it would match every row.
 */
import t from 'tap'
import { ids } from '../support/database/same-rows.ts'
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
const columns = ['id', 'name', 'price', 'p', 'm', 'data', 'data->k', 'data->>k']

t.test('an empty list matches no row', async t => {
  const service = await useService(t, { schema })
  const table = 'items'
  const select = (id: string, where: object): object => ({ id, op: 'select', table, where })
  for (const column of columns) {
    for (const attempt of [1, 2, 3]) {
      const { body, text } = await service.post([
        select('none', { [column]: { in: [] } }),
        select('other', { or: [{ [column]: { in: [] } }, { id: { eq: 2 } }] }),
        select('twice', { not: { [column]: { not: { in: [] } } } }),
        select('inner', {
          exists: { table: 'items', on: { id: 'id' }, where: { [column]: { in: [] } } }
        }),
        { id: 'd', op: 'delete', table: 'items', where: { [column]: { in: [] } } }
      ])
      t.equal(body.error, null, text)
      t.same(
        ['none', 'other', 'twice', 'inner', 'd'].map(id => ids(body.data[id])),
        [[], [2], [], [], []],
        `${column}, attempt ${attempt}`
      )
    }
  }
})

t.test('all runs of a batch have the same effect', async t => {
  const runs = await useRuns(t, { schema, tables: ['items'] })
  for (const column of columns) {
    const where = { or: [{ [column]: { in: [] } }, { id: { in: [2] } }] }
    const result = await runs.run([
      { id: 's', op: 'select', table: 'items', columns: ['id'], where },
      { id: 'u', op: 'update', table: 'items', set: { name: 'x' }, where }
    ])
    expectSame(t, result, column)
    t.same(result.checked.results?.[0], '[{"id":2}]')
    t.same(result.used, ['aggregated', 'aggregated'], column)
  }
})

t.test('an empty list that would match every row is refused', async t => {
  const service = await useService(t, { schema })
  const on = { id: 'id' }
  const refused: ReadonlyArray<readonly [where: object, path: readonly string[]]> = [
    [{ id: { nin: [] } }, ['id', 'nin']],
    [{ id: { not: { nin: [] } } }, ['id', 'not', 'nin']],
    [{ id: { not: { in: [] } } }, ['id', 'not', 'in']],
    [{ not: { id: { in: [] } } }, ['not', 'id', 'in']],
    [{ not: { not: { id: { not: { in: [] } } } } }, ['not', 'not', 'id', 'not', 'in']],
    [{ not_exists: { table: 'items', on, where: { id: { in: [] } } } }, [
      'not_exists',
      'where',
      'id',
      'in'
    ]],
    [
      { not: { exists: { table: 'items', on, where: { id: { in: [] } } } } },
      ['not', 'exists', 'where', 'id', 'in']
    ]
  ]
  for (const [where, path] of refused) {
    const { body, status } = await service.post([{ id: 'd', op: 'delete', table: 'items', where }])
    t.equal(status, 422)
    t.match(body.error?.errors, [{ code: 'operand_invalid', path: ['where', ...path] }])
  }
  const { body } = await service.post([
    {
      id: 's',
      op: 'select',
      table: 'items',
      where: { not_exists: { table: 'items', on, where: { not: { id: { in: [] } } } } }
    }
  ])
  t.same(body.data, { s: [] }, 'an even number of not')
})
