/**
 * `oneflight check`: validates batches with the service's own code, without a service. Only the
 * database knows tables, columns and types, so they are checked only with `--database`.
 */
import { readDatabaseSettings, readLimits, type Limits } from '../config/config.ts'
import { Failure, failure } from '../errors/catalogue.ts'
import { findSyntaxError, positionOf, type Position } from '../json/json-text.ts'
import { findDuplicate } from '../json/try-parse.ts'
import type { Plan } from '../plan/plan.ts'
import { planBatch } from '../plan/plan-batch.ts'
import { batchLimits, readBatch } from '../plan/check/read-batch.ts'
import { readSettings, UsageError } from './arguments.ts'
import type { DatabaseCheck } from './check-database.ts'
import type { CheckOptions } from './commands.ts'
import { describeIssues, readBatchText, readBatchFolder, readInput, type Input } from './input.ts'
import { type CliContext, count, visible } from './terminal.ts'

/** Prints one line per issue, or `ok` for a valid file. Resolves with the exit code. */
export async function check (
  options: CheckOptions,
  files: readonly string[],
  { env, stdin, stdout }: CliContext
): Promise<number> {
  const { limits, database } = await prepare(options, env)
  let code = 0
  const print = ({ issues, lines }: Checked): void => {
    if (issues.length > 0) code = 1
    stdout.write([...issues, ...lines].map(line => `${visible(line)}\n`).join(''))
  }
  try {
    if (options.batches !== undefined) print(await checkFolder(options.batches, limits))
    for (const file of files) {
      print(await checkInput(await readInput(file, stdin), limits, database))
    }
  } finally {
    await database?.close()
  }
  return code
}

/** One line per issue, and the lines about what is valid. */
interface Checked {
  readonly issues: readonly string[]
  readonly lines: readonly string[]
}

/** Checks the named batches of a folder. Throws a UsageError when it cannot be read. */
async function checkFolder (folder: string, limits: Limits): Promise<Checked> {
  const read = await readBatchFolder(folder, batchLimits(limits))
  if ('issues' in read) return { issues: read.issues, lines: [] }
  const plans = [...read.batches.values()].map(({ planner }) => planner.planOfFile)
  const lines = read.files.map(([path], i) => describeValid(path, plans[i] as Plan))
  return { issues: [], lines: lines.length === 0 ? [`${folder}: ok: no batches`] : lines }
}

function describeValid (name: string, { operations }: Plan): string {
  return `${name}: ok: ${count(operations.length, 'operation')}`
}

async function prepare (
  options: CheckOptions,
  env: CliContext['env']
): Promise<{ readonly limits: Limits, readonly database: DatabaseCheck | undefined }> {
  if (options.batches !== undefined && options.database === true) {
    throw new UsageError('--batches and --database cannot be used together')
  }
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
): Promise<Checked> {
  try {
    const plan = readPlan(input.bytes, limits)
    const issues = await database?.check(plan, readBatchText(input)) ?? []
    return { issues, lines: issues.length > 0 ? [] : [describeValid(input.name, plan)] }
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return { issues: describe(error, input), lines: [] }
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
  const offset = findSyntaxError(text) ?? findDuplicate(text)?.position
  return offset === undefined ? undefined : positionOf(text, offset)
}
