/**
 * `oneflight check`: batches held against the grammar by the code of the service itself, without a
 * service and without a database. Tables, columns and types are the database's business.
 */
import { readLimits, type ConfigError, type Limits } from '../config/config.ts'
import { Failure, failure } from '../errors/catalogue.ts'
import { findDuplicate } from '../json/duplicate-key.ts'
import { createLocator, type Place } from '../json/source.ts'
import { findSyntaxFault } from '../json/syntax.ts'
import { readBatch } from '../plan/read-batch.ts'
import { UsageError } from './arguments.ts'
import { describeFaults, readBatchText } from './batch.ts'
import { readInput, type Input } from './input.ts'
import { count, visible } from './text.ts'
import type { CliContext } from './context.ts'

/**
 * Prints every fault of every file, a line each, or that there is none. Resolves with the exit
 * code.
 */
export async function check (
  files: readonly string[],
  { env, stdin, stdout }: CliContext
): Promise<number> {
  const limits = limitsOf(env)
  let code = 0
  for (const file of files) {
    const input = await readInput(file, stdin)
    try {
      const operations = countOperations(input.bytes, limits)
      stdout.write(visible(`${input.name}: ok: ${count(operations, 'operation')}`) + '\n')
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      code = 1
      for (const line of describe(error, input)) stdout.write(`${visible(line)}\n`)
    }
  }
  return code
}

/** Number of operations in a valid batch. Throws the Failure that the service would return. */
function countOperations (bytes: Buffer, limits: Limits): number {
  if (bytes.length > limits.MAX_BODY_BYTES) throw failure('body_too_large')
  return readBatch(bytes, {
    schemas: limits.DB_SCHEMAS,
    maxOps: limits.MAX_OPS,
    maxRows: limits.MAX_ROWS,
    maxConditions: limits.MAX_CONDITIONS
  }).operations.length
}

function describe ({ code, message, details }: Failure, input: Input): readonly string[] {
  const batch = readBatchText(input)
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
