/**
 * On Citus, a statement names the types that it depends on. A role may not use those of another
 * schema than that of the table.
 */
import t from 'tap'
import type { Batch } from '../../../schemas/batch.ts'
import { planBatch } from '../../../src/plan/plan-batch.ts'
import { ColumnTypes } from '../../../src/sql/column-types.ts'
import { compile } from '../../../src/sql/compile.ts'
import { compilePlain } from '../../../src/sql/plain.ts'

t.test('a type of another schema has no plain form on Citus', t => {
  const batch = [{ id: 's', op: 'select', table: 't', where: { a: { eq: 'x' } } }] as const
  const plan = planBatch(batch as unknown as Batch, {
    schemas: ['public'],
    maxRows: 10,
    maxConditions: 10,
    maxWork: 1000
  })
  const compileFor = (typeSchema: string, distributed: boolean) => {
    const types = new ColumnTypes()
    types.remember(JSON.stringify([{
      schema: 'public',
      name: 't',
      columns: [['a', 20_000, -1, 'e', typeSchema, 'mood', 'E', 0]]
    }]))
    return compilePlain(plan, {
      session: { role: 'r', claims: '{}' },
      maxRows: 10,
      maxBytes: 1000,
      distributed,
      findColumns: table => types.lookup(table)
    })[0]
  }
  t.equal(compileFor('other', true), undefined)
  t.match(compileFor('other', false), { prepare: true })
  t.match(compileFor('public', true), { text: /'"public"\."mood"'::pg_catalog\.regtype/ })
  t.end()
})

t.test('in the general form, rows of several groups with all columns are one value', t => {
  const batch = [{
    id: 'i',
    op: 'insert',
    table: 't',
    values: Array.from({ length: 400 }, (_, i) => i % 2 === 0 ? { a: i } : { b: i }),
    returning: ['*', { column: 'a', as: 'k' }]
  }]
  const plan = planBatch(batch as unknown as Batch, {
    schemas: ['public'],
    maxRows: 1000,
    maxConditions: 10,
    maxWork: 100_000
  })
  const [statement] = compile(plan, {
    session: { role: 'r', claims: '{}' },
    maxRows: 1000,
    maxBytes: 1000
  })
  t.match(statement?.text, /q\.\*::record/)
  t.end()
})
