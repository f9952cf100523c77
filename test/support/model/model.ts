/**
 * A reference implementation of batches by docs/reference/language.md. It runs the operations one
 * after the other as SQL with handwritten literals. References are resolved in JavaScript from
 * earlier rows, which are JSON text, so no digit is lost.
 *
 * It returns the expected rows or failures and changes the tables. It shares no code and no
 * technique with the service: no parameters and no references in SQL. It does not validate batches,
 * which come from arbitrary-batch.ts. Where the contract allows several results it returns
 * `unordered` rows, a set of failures, or `open`.
 */
import type { Sql } from 'postgres'
import type { Trial } from './arbitrary-batch.ts'
import type { Operation } from './finish-batch.ts'
import { tableName } from './model-filter.ts'
import { convertInserted, runOperation, type Conflict } from './model-operation.ts'
import { hasUnfit } from './model-write.ts'
import { chooseRow, firstsOf, referencesOf } from './model-reference.ts'
import {
  endWith,
  failWith,
  type BatchEnd,
  type Context,
  type Failure,
  type Outcome,
  type Rows,
  type Session
} from './outcome.ts'
import { readRaw } from './raw-json.ts'
import { tableOf } from './tables.ts'

const failAt = (index: number | null) => (error: unknown): never => {
  if ('outcome' in (error as object)) throw error
  const { code } = error as { code?: unknown }
  throw failWith(code === 'UNFIT' ? 'value_invalid' : String(code), index)
}

/**
 * Runs a batch on `sql` in one transaction. It is committed unless the batch fails or requests a
 * rollback.
 */
export async function runModel (sql: Sql, { operations, prefer }: Trial): Promise<Outcome> {
  // All values are written before anything runs.
  const unfit = operations.findIndex(hasUnfit)
  if (unfit >= 0) return failWith('value_invalid', unfit).outcome
  const connection = await sql.reserve()
  const session: Session = {
    async query (text) {
      const rows = await connection.unsafe(text).values()
      return rows.map(([column]) => column as string)
    }
  }
  const isolation = (prefer['isolation'] ?? 'read-committed').replace('-', ' ')
  try {
    await session.query(
      `begin isolation level ${isolation} ${
        prefer['access'] === 'read-only' ? 'read only' : 'read write'
      }; set local timezone = 'UTC'`
    )
    const results: Rows[] = []
    for (const [index, operation] of operations.entries()) {
      const table = tableOf(operation)
      const context = {
        session,
        results,
        table,
        row: 't',
        readOnly: prefer['access'] === 'read-only',
        minimal: prefer['return'] === 'minimal'
      }
      await session.query('savepoint before')
      const rows = isMet(operation, results)
        ? await runReader(operation, index, context).catch(failAt(index)).catch(async error =>
          collectFailures(error, operations, index, context))
        : await skip(operation, index, context)
      results.push(rows)
      checkResult(operations, index, rows)
    }
    await session.query('set constraints all immediate').catch(failAt(null))
    await session.query(prefer['tx'] === 'rollback' ? 'rollback' : 'commit')
    return { kind: 'done', results }
  } catch (error) {
    await session.query('rollback')
    const { outcome } = error as Partial<BatchEnd>
    if (outcome === undefined) throw error
    return outcome
  } finally {
    connection.release()
  }
}

/** Throws all failures that are as correct as `error`, because the operation has several errors. */
async function collectFailures (
  error: BatchEnd,
  operations: readonly Operation[],
  index: number,
  context: Context
): Promise<never> {
  const { outcome } = error
  if (outcome.kind !== 'refused') throw error
  if (mayOmitCasts(operations[index] as Operation, outcome, context)) {
    throw endWith({ kind: 'open' })
  }
  // Values and access may be checked in either order.
  const forbidden = context.readOnly && changes(operations[index] as Operation)
    ? [{ code: '25006', index }]
    : []
  const alternatives = [
    ...forbidden,
    ...await failuresOfRows(operations[index] as Operation, index, context),
    ...outcome.refusals[0]?.code === '23503'
      ? await failuresOfResult(operations, index, context)
      : [],
    ...outcome.refusals.some(({ code }) => code.startsWith('22'))
      ? await failuresOfJoin(operations[index] as Operation, index, context)
      : [],
    ...outcome.refusals.some(({ code }) => code.startsWith('22') || code === 'rows_ambiguous')
      ? await failuresOfSet(operations[index] as Operation, index, context)
      : []
  ]
  throw endWith({ kind: 'refused', refusals: [...outcome.refusals, ...alternatives] })
}

/** Values that no response holds may or may not be converted. */
function mayOmitCasts (
  { answer, columns, returning }: Operation,
  { refusals }: Outcome & { kind: 'refused' },
  { minimal }: Context
): boolean {
  return (minimal || answer === 'count') && refusals[0]?.code.startsWith('22') === true &&
    JSON.stringify([columns, returning]).includes('"cast"')
}

/**
 * Any failing row of an insert or an update may be reported. Failures of single rows and failures
 * of several rows together may be checked in either order.
 */
async function failuresOfRows (
  operation: Operation,
  index: number,
  context: Context
): Promise<readonly Failure[]> {
  const byKey = operation.op !== 'update' || operation['key'] !== undefined
  const rows = byKey ? operation['values'] as unknown[] ?? [] : await keysOf(operation, context)
  if (rows.length < 2) return []
  const { where = {} } = operation as { readonly where?: { readonly and?: readonly unknown[] } }
  const failuresWith = async (some: readonly unknown[]): Promise<readonly Failure[]> => {
    const part = byKey
      ? { values: some }
      : { where: { ...where, and: [...where.and ?? [], { or: some }] } }
    return failuresOf(() => runOperation({ ...operation, ...part }, context), index, context)
  }
  const single: Array<readonly Failure[]> = []
  for (const row of rows) single.push(await failuresWith([row]))
  const valid = rows.filter((_, i) => single[i]?.length === 0)
  return [...single.flat(), ...valid.length === 0 ? [] : await failuresWith(valid)]
}

/** A condition for each row of the table. */
async function keysOf (
  operation: Operation,
  { session, table: { key } }: Context
): Promise<readonly unknown[]> {
  await session.query('rollback to before')
  const members = key.map(column => `'${column}', json_build_object('eq', ${column})`).join(', ')
  const rows = await session.query(
    `select json_build_object(${members})::text from ${tableName(operation.table)}`
  )
  return rows.map(row => JSON.parse(row) as unknown)
}

/**
 * PostgreSQL checks foreign keys after the rows are known. The rows may already violate an
 * expectation or lack what later operations refer to.
 */
async function failuresOfResult (
  operations: readonly Operation[],
  index: number,
  context: Context
): Promise<readonly Failure[]> {
  return failuresOf(
    async () => {
      await context.session.query("set local session_replication_role = 'replica'")
      checkResult(operations, index, await runOperation(operations[index] as Operation, context))
    },
    index,
    context
  )
}

/** A value in a condition of `from` may be read after the columns that are joined are compared. */
async function failuresOfJoin (
  operation: Operation,
  index: number,
  context: Context
): Promise<readonly Failure[]> {
  const { from } = operation
  if (from === undefined) return []
  const joined = { ...operation, from: { ...from, where: undefined, having: undefined } }
  return failuresOf(() => runOperation(joined, context), index, context)
}

/** New values may be read before the rows of `from` are counted, and before all of a condition. */
async function failuresOfSet (
  operation: Operation,
  index: number,
  context: Context
): Promise<readonly Failure[]> {
  if (operation['set'] === undefined) return []
  const alone = { ...operation, from: undefined, where: undefined }
  const failures = await failuresOf(() => runOperation(alone, context), index, context)
  return failures.filter(({ code }) => code.startsWith('22'))
}

async function failuresOf (
  work: () => Promise<unknown>,
  index: number,
  { session }: Context
): Promise<readonly Failure[]> {
  await session.query('rollback to before')
  try {
    await work().catch(failAt(index))
    return []
  } catch (error) {
    const { outcome } = error as BatchEnd
    if (outcome.kind !== 'refused') throw error
    return outcome.refusals
  }
}

function changes ({ op }: Operation): boolean {
  return op !== 'select' && op !== 'call'
}

// Checks of results: the expected number of rows, and what later operations refer to

function checkResult (
  operations: readonly Operation[],
  index: number,
  { texts, skipped = false }: Rows
): void {
  const { expect } = operations[index] as Operation
  if (!skipped && !isWithin(texts.length, expect)) throw failWith('expectation_failed', index)
  const missing = operations.flatMap((reader, at) =>
    at <= index ? [] : referencesOf(reader, index).map(needs => ({ at, ...needs }))
  )
  const row = missing.find(({ at, rows }) =>
    operations[at]?.['when'] === undefined && texts.length < rows
  )
  if (row !== undefined) throw failWith('reference_row_missing', row.at)
  const columns = Object.keys(texts.length === 0 ? {} : readRaw(texts[0] as string) as object)
  const column = missing.find(({ column }) =>
    texts.length > 0 && column !== undefined && !columns.includes(column)
  )
  if (column !== undefined) throw failWith('reference_column_missing', column.at)
}

/** Whether a number of rows is that of `expect` or `when`. */
function isWithin (rows: number, expected: unknown): boolean {
  const { min = 0, max = Infinity } = typeof expected === 'number'
    ? { min: expected, max: expected }
    : expected as { min?: number, max?: number } ?? {}
  return rows >= min && rows <= max
}

// Conditions between operations
// ------------------------------------------------------------

function isMet ({ when = {} }: Operation, results: readonly Rows[]): boolean {
  return Object.entries(when as object).every(([id, expected]) =>
    isWithin(results[Number(id.slice(1))]?.texts.length as number, expected))
}

/** Runs an operation whose rows to read exist. One with `when` finds out only now. */
async function runReader (operation: Operation, index: number, context: Context): Promise<Rows> {
  const { results } = context
  const missing = results.some(({ texts }, source) =>
    operation['when'] !== undefined &&
    referencesOf(operation, source).some(({ rows }) => rows > texts.length)
  )
  const none = firstsOf(operation).some(first => chooseRow(first, results) === undefined)
  if (!missing && !none) return runOperation(operation, context)
  // Its other values may be checked before. The missing values are null here.
  const failures = await failuresOf(() => runOperation(operation, context), index, context)
  const refusals = [{ code: 'reference_row_missing', index }, ...failures]
  throw endWith({ kind: 'refused', refusals })
}

/**
 * What does nothing is checked all the same: its values may be converted, or not. Those of missing
 * rows are null here.
 */
async function skip (operation: Operation, index: number, context: Context): Promise<Rows> {
  const { op, on_conflict: conflict } = operation
  if (context.readOnly && changes(operation)) throw failWith('25006', index)
  if (op === 'insert' && (conflict as Conflict | undefined)?.do === 'update') {
    throw endWith({ kind: 'open' })
  }
  // To insert rows would use values of sequences.
  const run = op === 'insert' ? convertInserted : runOperation
  const failures = await failuresOf(() => run(operation, context), index, context)
  await context.session.query('rollback to before')
  if (failures.length > 0) throw endWith({ kind: 'open' })
  return { texts: [], ordered: true, skipped: true }
}
