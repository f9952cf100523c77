/**
 * The protocol counts parameters in 16 bits. An operation with more values stores rows of JSON, or
 * an array for each column.
 */
import t from 'tap'
import type { Batch } from '../../../schemas/batch.ts'
import { planBatch } from '../../../src/plan/plan-batch.ts'
import { compile } from '../../../src/sql/compile.ts'
import { fillStatement, type CompiledStatement } from '../../../src/sql/statement/statement.ts'
import { ColumnTypes } from '../../../src/sql/values/column-types.ts'

/** The modifier of numeric(10,2). */
const PRICE = (10 << 16) + 2 + 4

const columns = Array.from({ length: 210 }, (_, i) => `c${i}`)

/** Groups of rows, each with a column that the others do not have. */
function rowsOf (row: (n: number) => object): readonly object[] {
  return Array.from({ length: 20 * 16 }, (_, n) => row(n))
}

t.test('rows of many groups with many columns are sent together', async t => {
  const types = new ColumnTypes()
  const known = ['id', ...columns, ...Array.from({ length: 20 }, (_, i) => `g${i}`)]
  types.remember(JSON.stringify([{
    schema: 'public',
    name: 't',
    columns: known.map(name => name === 'c0' ? [name, 1700, PRICE] : [name, 25, -1])
  }]))
  const all = (n: number): object => ({
    ...Object.fromEntries(columns.map(name => [name, 'x'])),
    c0: n === 3 ? 25.005 : 1,
    [`g${n % 20}`]: '$s.0.id'
  })
  const batches = {
    insert: { op: 'insert', values: rowsOf(all) },
    update: { op: 'update', key: ['id'], values: rowsOf(n => ({ id: `k${n}`, ...all(n) })) }
  }
  for (const [name, operation] of Object.entries(batches)) {
    const batch = [{ id: 's', op: 'select', table: 't' }, { id: 'o', table: 't', ...operation }]
    const plan = planBatch(batch as unknown as Batch, {
      schemas: ['public'],
      maxRows: 1000,
      maxConditions: 1000
    })
    const [, statement] = compile(plan, {
      maxRows: 1000,
      maxBytes: 100_000,
      findFunction: () => undefined,
      findColumns: table => types.lookup(table)
    })
    t.ok((statement?.parameters.length ?? Infinity) < 65_534, name)
    const { refused } = fillStatement(statement as CompiledStatement, [])
    t.match(refused, [{ column: 'c0', row: 3, issue: { problem: 'digits' } }], name)
  }
})
