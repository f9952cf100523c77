/**
 * Collects the issues of a batch, which are reported together.
 */
import type { Issue } from '../../../schemas/error.ts'
import { failure } from '../../errors/catalogue.ts'

/**
 * Maximum length of all listed issues as JSON. Each issue repeats the id and a path, so a body of
 * 1 MiB could otherwise cause a response of 500 MiB.
 */
export const maxIssuesLength = 262_144

export class Issues {
  readonly #listed: Issue[] = []
  #count = 0
  #length = 0
  #forbidden = true

  /**
   * Adds an issue. If it does not fit, throws what throwIfAny throws; the rest of the batch is then
   * not checked.
   */
  add (sent: Issue): void {
    const issue = { ...sent, message: shorten(sent.message) }
    this.#count++
    this.#forbidden &&= issue.code === 'schema_forbidden'
    this.#length += JSON.stringify(issue).length
    if (this.#length <= maxIssuesLength || this.#count === 1) this.#listed.push(issue)
    else this.throwIfAny()
  }

  get isEmpty (): boolean {
    return this.#count === 0
  }

  /**
   * Throws `validation_failed` if there are issues. The status is 422, or 403 if every issue is
   * `schema_forbidden`.
   */
  throwIfAny (): void {
    const [count, listed] = [this.#count, this.#listed.length]
    if (count === 0) return
    const several = listed < count
      ? `The batch has more than ${listed} issues; these are listed.`
      : `The batch has ${count} issues.`
    const message = count === 1 ? this.#listed[0]?.message : several
    const invalid = failure('validation_failed', message, { errors: this.#listed })
    throw this.#forbidden ? Object.assign(invalid, { status: 403 }) : invalid
  }
}

/** Maximum length of a message, because messages quote names of any length. */
const MAX_MESSAGE_LENGTH = 2000

/** Leaves out the middle of a long message. */
export function shorten (message: string): string {
  const half = MAX_MESSAGE_LENGTH / 2
  return message.length > MAX_MESSAGE_LENGTH
    ? `${message.slice(0, half)}…${message.slice(-half)}`
    : message
}
