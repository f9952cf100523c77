/**
 * Settings of a service for the form in which it runs statements:
 * - `chosen`: as it chooses
 * - `general`: the general form only
 * - `plain`: the plain form from the first batch on, where a statement has one. Each statement is
 *   verified before its batch. Use it with POOL_SIZE=1: a connection verifies its own statements.
 *
 * TEST_FORMS sets the form of all services that do not name one.
 */
import { executeBatch } from '../../src/transaction/execute.ts'
import { chooseForms } from '../../src/transaction/choose-forms.ts'
import { compileBatch } from '../../src/transaction/compile-batch.ts'
import type { CompiledBatch, PlainBatch } from '../../src/transaction/compiled-batch.ts'
import { choosePool } from '../../src/transaction/database.ts'
import type { BatchSettings, RunBatchOptions } from '../../src/transaction/run-batch.ts'
import type { PlainStatement } from '../../src/sql/plain.ts'

export const FORMS = ['chosen', 'general', 'plain'] as const
export type FormName = typeof FORMS[number]

/** How many operations of the batches of a service were ready to run in the plain form. */
export interface FormCount {
  plain: number
  all: number
}

/** Returns the settings; `count` counts with the form `plain`. */
export function formSettings (
  form: FormName = process.env['TEST_FORMS'] as FormName ?? 'chosen',
  count: FormCount = { plain: 0, all: 0 }
): Partial<BatchSettings> {
  if (form === 'general') return { plainForm: false }
  if (form === 'chosen') return {}
  return {
    async beforeBatch (planned, request, options) {
      // A failure is that of the batch, too, which reports it.
      await verify(() => compileBatch(planned, request, options.settings), options, count).catch(
        () => {}
      )
    }
  }
}

/** Learns the types of columns, then verifies the statements. */
async function verify (
  compile: () => CompiledBatch,
  { database, ...options }: RunBatchOptions,
  count: FormCount
): Promise<void> {
  // Each run verifies at least one statement, or learns the types of columns.
  for (let runs = compile().count + 1; runs >= 0; runs--) {
    const batch = compile()
    const { plain } = batch
    if (plain === undefined) return
    const pool = choosePool(database, batch.mode)
    const connection = await pool.acquire(options.deadline)
    // A text is prepared when it is seen for the second time.
    chooseForms(batch, connection)
    const { unverified, operations } = chooseForms(batch, connection)
    pool.release(connection)
    // Tables that do not exist stay unknown.
    if (unverified.length === 0 && (plain.columnTypes === undefined || runs === 0)) {
      count.all += operations.length
      count.plain += operations.filter(statement => 'separateRows' in statement).length
      return
    }
    await executeBatch(pool, verifyingBatch(batch, plain, unverified), options)
  }
}

/** A batch that prepares plain statements and runs no operation of the client. */
function verifyingBatch (
  { key: _, ...batch }: CompiledBatch,
  plain: PlainBatch,
  unverified: readonly PlainStatement[]
): CompiledBatch {
  const nothing = { text: "select '[]'", parameters: [], prepare: false }
  return {
    ...batch,
    count: unverified.length,
    operations: () => unverified.map(() => nothing),
    plain: { ...plain, statements: unverified, links: unverified.map((_, i) => i) },
    mode: { ...batch.mode, tx: 'rollback' }
  }
}
