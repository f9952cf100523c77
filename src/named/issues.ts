/**
 * Issues of parameters, and of the files that declare them.
 */
import type { Issue, ParameterIssue } from '../../schemas/error.ts'
import { failure } from '../errors/catalogue.ts'
import { maxIssuesLength, shorten } from '../plan/check/issues.ts'
import type { Path } from '../plan/context.ts'

/** What is wrong at a path of a schema, of a file, or of the object of all parameters. */
export interface PathIssue {
  readonly path: Path
  readonly message: string
}

/**
 * Throws `params_invalid` if there are issues. It lists them up to the size of a response. `line`:
 * that of an upload which has them.
 */
export function refuse (issues: Iterable<PathIssue>, line?: number): void {
  const listed: ParameterIssue[] = []
  let length = 0
  let isCut = false
  for (const issue of issues) {
    const path = [...issue.path]
    const message = shorten(issue.message)
    length += JSON.stringify([path, message]).length
    isCut = length > maxIssuesLength && listed.length > 0
    if (isCut) break
    listed.push({ path, message })
  }
  const [first] = listed
  if (first === undefined) return
  const count = isCut ? `more than ${listed.length}` : listed.length
  const errors = listed as unknown as Issue[]
  if (line === undefined) {
    const several = `The parameters have ${count} issues; see "errors".`
    throw failure('params_invalid', count === 1 ? first.message : several, { errors })
  }
  const several = `Line ${line} has ${count} issues; see "errors".`
  const message = count === 1 ? `Line ${line}: ${first.message}` : several
  throw failure('params_invalid', message, { errors, line })
}
