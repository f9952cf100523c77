/**
 * `oneflight check`: validates batches with the service's own code, without a service and without
 * a database. Only the database knows tables, columns and types, so they are not checked.
 */
import { readLimits, type ConfigError, type Limits } from '../config/config.ts'
import { Failure, failure } from '../errors/catalogue.ts'
import { findDuplicate } from '../json/duplicate-key.ts'
import { batchLimits, readBatch } from '../plan/read-batch.ts'
import { UsageError } from './arguments.ts'
import { describeIssues, readBatchText } from './batch.ts'
import type { CliContext } from './context.ts'
import { readInput, type Input } from './input.ts'
import { parseJsonText, positionOf, type Position } from './json-text.ts'
import { count, visible } from './text.ts'

/** Prints one line per issue, or `ok` for a valid file. Resolves with the exit code. */
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
  return readBatch(bytes, batchLimits(limits)).operations.length
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

function limitsOf (env: CliContext['env']): Limits {
  try {
    return readLimits(env)
  } catch (error) {
    throw new UsageError((error as ConfigError).problems.join('; '))
  }
}
