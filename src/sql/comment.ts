/**
 * The tag that joins PostgreSQL's own log to a request: a comment at the end of a statement, as
 * sqlcommenter writes it (https://google.github.io/sqlcommenter/spec/). It is the one place where a
 * request's headers come into the text of SQL.
 */
import { renderTraceparent, type Trace } from '../../schemas/trace-context.ts'

/**
 * The comment with a space before it. Keys are in alphabetical order, values percent-encoded, so
 * that nothing in them can end the value or the comment.
 */
export function commentOn (requestId: string, trace: Trace | undefined): string {
  const tags = [
    tag('request_id', requestId),
    ...trace === undefined ? [] : [tag('traceparent', renderTraceparent(trace))]
  ]
  return ` /*${tags.join(',')}*/`
}

function tag (name: string, value: string): string {
  // What encodeURIComponent lets stand and neither a comment nor a quoted value may hold.
  const text = encodeURIComponent(value).replace(
    /['*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
  )
  return `${name}='${text}'`
}
