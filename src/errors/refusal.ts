/**
 * Failures whose reason is in the log and not in the response: it would tell a caller which tokens
 * are accepted. With ERROR_VERBOSITY=verbose it is the `hint` of the response.
 */
import { failure, type Failure, type FailureCode } from './catalogue.ts'

/** Creates a failure of the catalogue that is logged with `reason`. */
export function refuse (code: FailureCode, reason: string): Failure {
  return withReason(failure(code), reason)
}

/** Adds the reason to a failure. */
export function withReason (failure: Failure, reason: string): Failure {
  return Object.assign(failure, { reason })
}

/** Maximum length of a quoted value. */
const MAX_LENGTH = 128

/**
 * A value of a token or of the configuration as JSON text for a reason. The text is cut after 128
 * characters. It is ASCII without control characters, so that it cannot change a terminal.
 */
export function quote (value: unknown): string {
  const text = JSON.stringify(value)
  const shown = text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}...` : text
  return shown.replace(
    /[^ -~]/g,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  )
}
