/**
 * Runs the SQL of a batch in a transaction that is rolled back.
 */
import { deepEqual } from 'node:assert/strict'
import postgres from 'postgres'
import type { Test } from 'tap'
import type { Batch } from '../../schemas/batch.ts'
import { defaultPreferences } from '../../schemas/prefer.ts'
import { parseJson } from '../../src/json/parse.ts'
import {
  BatchPlanner,
  planBatch
} from '../../src/plan/plan-batch.ts'
import { Compiler, type BatchRequest } from '../../src/sql/compiler.ts'
import { sessionStatement } from '../../src/sql/frame/session.ts'
import { ROW_SEPARATOR } from '../../src/sql/result.ts'
import { readRaised, type ServerError } from '../../src/sql/statement/raised-error.ts'
import type { Statement } from '../../src/sql/statement/statement.ts'
import { useDatabase } from './database/database.ts'

const SETTINGS = {
  schemas: ['public'],
  statementTimeoutMs: 0,
  lockTimeoutMs: 0,
  idleTimeoutMs: 0,
  sqlComments: false
}

export interface RunOptions {
  readonly minimal?: boolean
  readonly maxRows?: number
  readonly maxBytes?: number
  readonly role?: string
}

/** What a batch did: the results and the content of all tables afterwards, or its failure. */
export interface Effect {
  readonly results?: readonly string[]
  readonly stored?: string
  /** The raised error, or the SQLSTATE of the failure, and the index of its operation. */
  readonly failure?: string
}

export interface Run {
  readonly effect: Effect
  /**
   * How the run returns the rows of each operation: `direct`, one row of the result for each,
   * or `aggregated`, as one JSON text.
   */
  readonly used: readonly string[]
}

export interface BatchRunner {
  readonly sql: postgres.Sql
  /** Runs a batch, JSON text or a value. */
  run(batch: unknown, options?: RunOptions): Promise<Run>
}

/** Creates a database with `schema`, of which `tables` are compared after each batch. */
export async function useRuns (
  t: Test,
  { schema, tables }: { readonly schema: string, readonly tables: readonly string[] }
): Promise<BatchRunner> {
  const { sql: admin, loginUrl } = await useDatabase(t, { schema })
  const sql = postgres(loginUrl, { max: 1, types: { text: TEXT_TYPE }, onnotice: () => {} })
  t.teardown(() => sql.end({ timeout: 1 }))
  await admin.unsafe(CONTENT)
  // One for each set of limits, which knows the types after the first batch.
  const compilers = new Map<string, Compiler>()
  const compilerFor = (limits: { readonly maxRows: number, readonly maxBytes: number }) => {
    const key = JSON.stringify(limits)
    const compiler = compilers.get(key) ?? new Compiler({ ...SETTINGS, ...limits })
    compilers.set(key, compiler)
    return compiler
  }
  const execute = async (statements: readonly Statement[], role: string): Promise<Effect> => {
    let effect: Effect = {}
    await sql.begin(async transaction => {
      await Promise.all([
        transaction`select restart_sequences()`,
        sendExtended(transaction, openSession(role), false)
      ])
      effect = await runStatements(transaction, statements)
      if (effect.failure === undefined) {
        const [, [row]] = await Promise.all([
          transaction.unsafe('set local role none'),
          transaction`select content(${tables.join()}) as text`
        ])
        effect = { ...effect, stored: row?.['text'] as string }
      }
      throw ROLLBACK
    }).catch((error: unknown) => {
      if (error !== ROLLBACK) throw error
    })
    return effect
  }
  const prepare = async (
    batch: unknown,
    { minimal = false, maxRows = 600, maxBytes = 2 ** 20, role = 'oneflight_user' }: RunOptions = {}
  ) => {
    const text = typeof batch === 'string' ? batch : JSON.stringify(batch)
    const parsed = parseJson(Buffer.from(text)) as unknown as Batch
    const limits = { schemas: ['public'], maxRows, maxConditions: 1000 }
    const plan = planBatch(parsed, limits)
    const compiler = compilerFor({ maxRows, maxBytes })
    const request = {
      id: 'r',
      identity: { role, claims: '{}' },
      preferences: { ...defaultPreferences, return: minimal ? 'minimal' : 'representation' }
    } as BatchRequest
    const { operations, types } = compiler.compile({ plan, values: [], isKept: false }, request)
    // Functions may have been replaced since the batch before.
    if (types !== undefined) {
      const { text, remember } = types.all()
      const [row = {}] = await sql.unsafe(text)
      remember(row)
      types.renew()
    }
    const statements = operations()
    const planner = new BatchPlanner(limits)
    const ofShape = compiler.compile(planner.plan(parsed), request).operations()
    deepEqual(
      ofShape.map(({ text, parameters }) => ({ text, parameters })),
      statements.map(({ text, parameters }) => ({ text, parameters })),
      'the plan of a shape gives the same statements'
    )
    return { statements, execute: () => execute(statements, role) }
  }
  return {
    sql: admin,
    async run (batch, options) {
      const { statements, execute } = await prepare(batch, options)
      return {
        effect: await execute(),
        used: statements.map(({ separateRows }) => separateRows === true ? 'direct' : 'aggregated')
      }
    }
  }
}

/** Parameters and results are texts, as in the service. */
const TEXT_TYPE = {
  to: 25,
  from: [16, 17, 20, 21, 23, 26, 114, 700, 701, 1082, 1114, 1184, 3802],
  serialize: (text: string) => text,
  parse: (text: string) => text
}

const ROLLBACK = new Error('roll back')

/** Functions of the superuser that the transaction of another role calls. */
const CONTENT = `
  create function content(names text) returns text language plpgsql security definer as $$
    declare rows text; name text; result text := '';
    begin
      foreach name in array string_to_array(names, ',') loop
        execute format('select string_agg(t::text, chr(10) order by t::text) from %I as t', name)
          into rows;
        result := result || name || chr(10) || coalesce(rows, '') || chr(10);
      end loop;
      return result;
    end $$;
  create function restart_sequences() returns bigint language sql security definer as
    'select max(setval(oid, 1, false)) from pg_class where relkind = ''S'''`

function openSession (role: string): Statement {
  return sessionStatement({ role, claims: '{}', requestId: 'r' }, {
    schemas: ['public'],
    statementTimeoutMs: 20_000,
    lockTimeoutMs: 5000,
    idleTimeoutMs: 5000
  })
}

/** Rows as arrays of the bytes received. */
type RawRows = ReadonlyArray<ReadonlyArray<Buffer | null>>

/** A query of postgres.js, with members that are missing from its types. */
interface RawQuery extends PromiseLike<RawRows> {
  parameters: ReadonlyArray<string | null>
  execute(): RawQuery
}

/** Sends a statement with its parameters as text; PostgreSQL infers their types. */
function sendExtended (
  transaction: postgres.TransactionSql,
  { text, parameters }: Statement,
  prepare: boolean
): RawQuery {
  const options = { prepare, simple: false } as postgres.UnsafeQueryOptions
  const query = transaction.unsafe(text, [], options).raw() as unknown as RawQuery
  query.parameters = parameters as ReadonlyArray<string | null>
  return query.execute()
}

async function runStatements (
  transaction: postgres.TransactionSql,
  statements: readonly Statement[]
): Promise<Effect> {
  // The service sends none of the statements.
  const refused = statements.findIndex(({ refused = [] }) => refused.length > 0)
  if (refused !== -1) return { failure: `value_invalid at ${refused}` }
  const results: string[] = []
  for (const [i, statement] of statements.entries()) {
    const query = sendExtended(transaction, statement, true)
    try {
      const rows = await query
      results.push(
        statement.separateRows === true
          ? `[${rows.map(row => String(row[0])).join(ROW_SEPARATOR)}]`
          : String(rows[0]?.[0])
      )
    } catch (error) {
      const { code } = error as ServerError
      if (code === undefined) throw error
      return { failure: `${readRaised(error as ServerError)?.kind ?? code} at ${i}` }
    }
  }
  return { results }
}
