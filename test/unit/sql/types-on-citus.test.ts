/**
 * On Citus, a statement that runs on a worker as a whole compares types there by name, because they
 * have other OIDs. A role may not use names of another schema than that of the table; then the
 * coordinator compares OIDs.
 */
import t from 'tap'
import type { Batch } from '../../../schemas/batch.ts'
import { planBatch } from '../../../src/plan/plan-batch.ts'
import { compile } from '../../../src/sql/compile.ts'
import type { Statement } from '../../../src/sql/statement/statement.ts'
import { ColumnTypes } from '../../../src/sql/values/column-types.ts'

const limits = { schemas: ['public'], maxRows: 10, maxConditions: 10, maxWork: 1000 }

t.test('the columns of a constraint are not known on Citus', t => {
  const types = new ColumnTypes()
  types.remember(JSON.stringify([{
    schema: 'public',
    name: 't',
    columns: ['a', 'b'].map(name => [name, 23, -1]),
    keys: { t_pkey: ['a'] }
  }]))
  const plan = planBatch([{
    id: 'i',
    op: 'insert',
    table: 't',
    values: [{ a: 1, b: 2 }],
    on_conflict: { constraint: 't_pkey', do: 'update' }
  }] as unknown as Batch, limits)
  for (const distributed of [true, false]) {
    const [statement] = compile(plan, {
      maxRows: 10,
      maxBytes: 1000,
      distributed,
      findColumns: table => types.lookup(table)
    })
    const { text } = statement as Statement
    t.equal(/ do update set "a" = /.test(text), distributed, text)
  }
  t.end()
})

t.test('with value checks, the coordinator reads the rows of an update by key', t => {
  const plan = planBatch([
    { id: 's', op: 'select', table: 't' },
    { id: 'u', op: 'update', table: 't', key: ['a'], values: [{ a: 1, b: '$s.0.b' }] }
  ] as unknown as Batch, limits)
  for (const distributed of [true, false]) {
    const [, statement] = compile(plan, {
      maxRows: 10, maxBytes: 1000, distributed, checkValues: true
    })
    t.equal(statement?.text.includes('c1 as '), distributed)
  }
  t.end()
})

t.test('types of another schema are compared on the coordinator', t => {
  const batch = [{ id: 's', op: 'select', table: 't', where: { a: { eq: 'x' } } }] as const
  const plan = planBatch(batch as unknown as Batch, limits)
  const compileFor = (typeSchema: string, distributed: boolean): string | undefined => {
    const types = new ColumnTypes()
    types.remember(JSON.stringify([{
      schema: 'public',
      name: 't',
      columns: [['a', 20_000, -1]],
      types: [[20_000, 'e', typeSchema, 'mood', 'E', 0, -1, ',', true, [], 0]]
    }]))
    return compile(plan, {
      maxRows: 10,
      maxBytes: 1000,
      distributed,
      findColumns: table => types.lookup(table)
    })[0]?.text
  }
  const byName = /'"public"\."mood"'::pg_catalog\.regtype/
  const byOid = /operator\(pg_catalog\.=\) array\[20000\]::pg_catalog\.oid\[\]/
  t.match(compileFor('public', true), byName)
  t.notMatch(compileFor('public', true), /as fence/)
  t.match(compileFor('other', true), byOid)
  t.match(compileFor('other', true), /as fence/)
  t.match(compileFor('other', false), byOid)
  t.end()
})
