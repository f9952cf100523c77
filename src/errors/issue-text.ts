/**
 * Describes issues in one line of text.
 */
import type { Issue } from '../../schemas/error.ts'

/** `operation 1 (order): member_unknown at wheer: Unknown member …`. */
export function describeIssue (issue: Issue): string {
  const { code, path, message } = issue
  return `${describeOperation(issue)}: ${code} at ${describePath(path)}: ${message}`
}

/** `operation 1 (order)`. */
export function describeOperation (
  { op, index }: { readonly op?: string | null | undefined, readonly index: number }
): string {
  return typeof op === 'string' ? `operation ${index} (${op})` : `operation ${index}`
}

/** `where.total.gte`, `values[0].sku`, `where["data->a"]`. */
export function describePath (path: ReadonlyArray<string | number>): string {
  return path.map(step => {
    if (typeof step === 'string' && /^[\w$]+$/.test(step)) return `.${step}`
    return `[${JSON.stringify(step)}]`
  }).join('').replace(/^\./, '')
}
