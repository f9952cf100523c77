/**
 * Writes a comment at the end of a statement that connects PostgreSQL's log to a request, in the
 * format of sqlcommenter (https://google.github.io/sqlcommenter/spec/). Only here do request
 * headers become SQL text.
 */
import { renderTraceparent, type Trace } from '../../../schemas/trace-context.ts'

/**
 * Returns the comment with a space before it. Keys are in alphabetical order. Values are
 * percent-encoded, so they cannot close the value or the comment.
 */
export function commentOn (requestId: string, trace: Trace | undefined): string {
  const tags = [
    tag('request_id', requestId),
    ...trace === undefined ? [] : [tag('traceparent', renderTraceparent(trace))]
  ]
  return ` /*${tags.join(',')}*/`
}

function tag (name: string, value: string): string {
  // encodeURIComponent does not encode these, which could close a quoted value or a comment.
  const text = encodeURIComponent(value).replace(
    /['*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
  )
  return `${name}='${text}'`
}
