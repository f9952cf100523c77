/**
 * `oneflight check`: batches held against the grammar by the code of the service itself, without a
 * service and without a database. Tables, columns and types are the database's business.
 */
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import { batchSchema } from '../../schemas/batch.ts'
import { readLimits, type ConfigError, type Limits } from '../config/config.ts'
import { Failure, failure } from '../errors/catalogue.ts'
import { findDuplicate } from '../json/duplicate-key.ts'
import { parseJson } from '../json/parse.ts'
import { createLocator, type Place } from '../json/source.ts'
import { findSyntaxFault } from '../json/syntax.ts'
import { planBatch } from '../plan/plan-batch.ts'
import { checkIds, refuseBody } from '../plan/validate-body.ts'
import { UsageError } from './arguments.ts'
import { describeFaults, readBatch } from './batch.ts'
import { readInput, type Input } from './input.ts'
import { count, visible } from './text.ts'
import type { CliContext } from './context.ts'

interface Rules {
  readonly limits: Limits
  readonly body: TypeCheck<ReturnType<typeof batchSchema>>
}

/**
 * Prints every fault of every file, a line each, or that there is none. Resolves with the exit
 * code.
 */
export async function check (
  files: readonly string[],
  { env, stdin, stdout }: CliContext
): Promise<number> {
  const limits = limitsOf(env)
  const rules = { limits, body: TypeCompiler.Compile(batchSchema(limits.MAX_OPS)) }
  let code = 0
  for (const file of files) {
    const input = await readInput(file, stdin)
    try {
      const operations = plan(input.bytes, rules)
      stdout.write(visible(`${input.name}: ok: ${count(operations, 'operation')}`) + '\n')
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      code = 1
      for (const line of describe(error, input)) stdout.write(`${visible(line)}\n`)
    }
  }
  return code
}

/** Number of operations. Throws the Failure that the service would answer. */
function plan (bytes: Buffer, { limits, body }: Rules): number {
  if (bytes.length > limits.MAX_BODY_BYTES) throw failure('body_too_large')
  const batch: unknown = parseJson(bytes)
  if (!body.Check(batch)) throw refuseBody(body.Errors(batch).First())
  checkIds(batch)
  const [schema = '', ...more] = limits.DB_SCHEMAS
  return planBatch(batch, {
    schemas: [schema, ...more],
    maxRows: limits.MAX_ROWS,
    maxConditions: limits.MAX_CONDITIONS
  }).operations.length
}

function describe ({ code, message, details }: Failure, input: Input): readonly string[] {
  const batch = readBatch(input)
  return describeFaults(
    { code, message, ...details },
    batch,
    code === 'body_invalid' ? findFault(batch.text) : undefined
  )
}

/**
 * Where a body stops being JSON, or holds a key twice; undefined for what has no place of its own.
 */
function findFault (text: string): Place | undefined {
  const position = findSyntaxFault(text) ?? findDuplicate(text)?.position
  return position === undefined ? undefined : createLocator(text).placeOf(position)
}

function limitsOf (env: CliContext['env']): Limits {
  try {
    return readLimits(env)
  } catch (error) {
    throw new UsageError((error as ConfigError).problems.join('; '))
  }
}
