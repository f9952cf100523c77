/**
 * Collects the issues of a batch, up to the size that a response can list.
 */
import type { Issue } from '../../schemas/error.ts'
import { Failure, failure } from '../errors/catalogue.ts'

/**
 * Maximum length of all listed issues as JSON. Each issue repeats the id and a path, so a body of
 * 1 MiB could otherwise cause a response of 500 MiB.
 */
export const maxIssuesLength = 262_144

export interface Issues {
  /** Throws what throwIfAny throws if the issue does not fit. The rest is not checked then. */
  add(issue: Issue): void
  /**
   * Throws `validation_failed` if there are issues. The status is 422, or 403 if every issue is
   * `schema_forbidden`.
   */
  throwIfAny(): void
}

export function collectIssues (): Issues {
  const listed: Issue[] = []
  let count = 0
  let length = 0
  let forbidden = true
  return {
    add (sent) {
      const issue = { ...sent, message: shorten(sent.message) }
      count++
      forbidden &&= issue.code === 'schema_forbidden'
      length += JSON.stringify(issue).length
      if (length <= maxIssuesLength || count === 1) listed.push(issue)
      else this.throwIfAny()
    },
    throwIfAny () {
      if (count === 0) return
      const message = count === 1 ? listed[0]?.message : describeCount(count, listed.length)
      const invalid = failure('validation_failed', message, { errors: listed })
      throw forbidden ? withStatus(invalid, 403) : invalid
    }
  }
}

/** A message quotes names of any length. */
const MAX_MESSAGE_LENGTH = 2000

/** Leaves out the middle of a long message. */
export function shorten (message: string): string {
  const half = MAX_MESSAGE_LENGTH / 2
  return message.length > MAX_MESSAGE_LENGTH
    ? `${message.slice(0, half)}…${message.slice(-half)}`
    : message
}

function describeCount (count: number, listed: number): string {
  return listed < count
    ? `The batch has more than ${listed} issues; these are listed.`
    : `The batch has ${count} issues.`
}

function withStatus ({ type, code, message, details }: Failure, status: number): Failure {
  return new Failure({ type, code, status, message, details })
}
