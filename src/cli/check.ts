/**
 * `oneflight check`: validates batches with the service's own code, without a service. Only the
 * database knows tables, columns and types, so they are checked only with `--database`.
 */
import { readDatabaseSettings, readLimits, type Limits } from '../config/config.ts'
import { Failure, failure } from '../errors/catalogue.ts'
import { findDuplicate } from '../json/duplicate-key.ts'
import type { Plan } from '../plan/nodes.ts'
import { planBatch } from '../plan/plan-batch.ts'
import { batchLimits, readBatch } from '../plan/read-batch.ts'
import { readSettings, UsageError } from './arguments.ts'
import { describeIssues, readBatchText } from './batch.ts'
import type { DatabaseCheck } from './check-database.ts'
import type { CheckOptions } from './commands.ts'
import type { CliContext } from './context.ts'
import { readInput, type Input } from './input.ts'
import { parseJsonText, positionOf, type Position } from '../json/json-text.ts'
import { count, visible } from './text.ts'

/** Prints one line per issue, or `ok` for a valid file. Resolves with the exit code. */
export async function check (
  options: CheckOptions,
  files: readonly string[],
  { env, stdin, stdout }: CliContext
): Promise<number> {
  const { limits, database } = await prepare(options, env)
  let code = 0
  try {
    for (const file of files) {
      const input = await readInput(file, stdin)
      const { issues, operations } = await checkInput(input, limits, database)
      const lines = issues.length > 0 ? issues : [`${input.name}: ok: ${operations}`]
      if (issues.length > 0) code = 1
      stdout.write(lines.map(line => `${visible(line)}\n`).join(''))
    }
  } finally {
    await database?.close()
  }
  return code
}

async function prepare (
  options: CheckOptions,
  env: CliContext['env']
): Promise<{ readonly limits: Limits, readonly database: DatabaseCheck | undefined }> {
  if (options.database !== true) {
    if (options.role !== undefined) throw new UsageError('--role requires --database')
    return { limits: readSettings(readLimits, env), database: undefined }
  }
  const settings = readSettings(readDatabaseSettings, env)
  // Loaded only now: most commands do not need a database.
  const { openDatabaseCheck } = await import('./check-database.ts')
  return { limits: settings.config, database: openDatabaseCheck(settings, options) }
}

async function checkInput (
  input: Input,
  limits: Limits,
  database: DatabaseCheck | undefined
): Promise<{ readonly issues: readonly string[], readonly operations: string }> {
  try {
    const plan = readPlan(input.bytes, limits)
    return {
      issues: await database?.check(plan, readBatchText(input)) ?? [],
      operations: count(plan.operations.length, 'operation')
    }
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return { issues: describe(error, input), operations: '' }
  }
}

/** Throws the Failure that the service would return. */
function readPlan (bytes: Buffer, limits: Limits): Plan {
  if (bytes.length > limits.MAX_BODY_BYTES) throw failure('body_too_large')
  const allLimits = batchLimits(limits)
  return planBatch(readBatch(bytes, allLimits), allLimits)
}

function describe ({ code, message, details }: Failure, input: Input): readonly string[] {
  const batch = readBatchText(input)
  return describeIssues(
    { code, message, ...details },
    batch,
    code === 'body_invalid' ? findInvalidJson(batch.text) : undefined
  )
}

/** Position of the first syntax error or duplicate key; undefined when the text has neither. */
function findInvalidJson (text: string): Position | undefined {
  const offset = parseJsonText(text).error ?? findDuplicate(text)?.position
  return offset === undefined ? undefined : positionOf(text, offset)
}
