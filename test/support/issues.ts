/**
 * Plans batches as the route and `oneflight check` do, without a service and a database. An issue
 * is compared as a text, for example `member_invalid values[0].sku`.
 */
import type { Test } from 'tap'
import type { Issue } from '../../schemas/error.ts'
import { type Environment, readLimits } from '../../src/config/config.ts'
import { Failure } from '../../src/errors/catalogue.ts'
import { describePath } from '../../src/errors/envelope.ts'
import { planBatch } from '../../src/plan/plan-batch.ts'
import { batchLimits, readBatch } from '../../src/plan/check/read-batch.ts'

/** Environment variables of limits, or another limit of conditions. */
interface Limits extends Environment {
  readonly conditions?: string
}

/** Returns the failure of a batch, JSON text or a value; undefined if it is valid. */
export function findFailure (
  batch: unknown,
  { conditions, ...settings }: Limits = {}
): Failure | undefined {
  const text = typeof batch === 'string' ? batch : JSON.stringify(batch)
  const read = batchLimits(readLimits(settings))
  const limits = { ...read, maxConditions: Number(conditions ?? read.maxConditions) }
  try {
    planBatch(readBatch(Buffer.from(text), limits), limits)
    return undefined
  } catch (error) {
    if (error instanceof Failure) return error
    throw error
  }
}

export function toTexts (issues: ReadonlyArray<Pick<Issue, 'code' | 'path'>> = []): string[] {
  return issues.map(({ code, path }) => `${code} ${describePath(path)}`).sort()
}

export function issuesOf (batch: unknown, settings?: Limits): string[] {
  return toTexts(findFailure(batch, settings)?.details.errors)
}

/** An operation, and exactly the issues that it has. */
export type InvalidOperation = readonly [operation: object, ...issues: string[]]

/** Asserts the issues of each operation. It stands between the selects `before` and `later`. */
export function assertIssues (
  t: Test,
  operations: readonly InvalidOperation[],
  settings?: Limits
): void {
  const select = { op: 'select', table: 'things' }
  for (const [operation, ...issues] of operations) {
    const { id, ...members } = { id: 'o', ...operation }
    const failure = findFailure(
      [{ id: 'before', ...select }, { id, ...members }, { id: 'later', ...select }],
      settings
    )
    const name = encodeURI(JSON.stringify(operation).slice(0, 250))
    const { errors = [] } = failure?.details ?? {}
    t.strictSame(toTexts(errors), issues.sort(), name)
    t.match(failure, {
      type: 'validation_error',
      code: 'validation_failed',
      status: issues.every(issue => issue.startsWith('schema_forbidden')) ? 403 : 422,
      committed: false,
      message: errors.length === 1 ? errors[0]?.message : `The batch has ${errors.length} issues.`
    }, name)
    for (const issue of errors) t.match(issue, { op: id, index: 1, message: /^.+[.?]$/s })
  }
}
