/**
 * Compiles the session of a batch. Its statements are the same for all batches of a role on one
 * connection, except for the claims and the request id, so they are compiled once.
 */
import { LRUCache } from 'lru-cache'
import { textPlaceholder } from '../plan/shape.ts'
import type { Statement } from './statement/statement.ts'
import type { ConnectionFacts } from '../postgres/facts.ts'
import { sessionStatements, type Session, type SessionDefaults } from './frame/session.ts'
import { createTemplate, fillTemplate, type Template } from './statement/template.ts'
import { templateBytes } from './template-cache.ts'

type SessionTemplate = ReadonlyArray<Template<Statement>>

/** A connection has few roles, but the names in tokens are not limited. */
const MAX_BYTES = 512 * 1024

const templates = new WeakMap<ConnectionFacts, LRUCache<string, SessionTemplate>>()

/** `defaults` must be the same for all batches of a connection. */
export function compileSession (
  session: Session,
  defaults: SessionDefaults,
  connection: ConnectionFacts
): readonly Statement[] {
  // The settings of query plans depend on the batch. A session that is set again has facts of its
  // own, which no later batch has.
  if (session.settings !== undefined || connection.server === undefined) {
    return sessionStatements(session, defaults, connection)
  }
  const template = findTemplate(session, defaults, connection)
  const values = [session.claims, session.requestId]
  return template.map(statement => fillTemplate(statement, values) as Statement)
}

function findTemplate (
  session: Session,
  defaults: SessionDefaults,
  connection: ConnectionFacts
): SessionTemplate {
  const ofConnection = templates.get(connection) ??
    new LRUCache<string, SessionTemplate>({ maxSize: MAX_BYTES, sizeCalculation: templateBytes })
  const key = `${session.writes === true} ${session.role}`
  const known = ofConnection.get(key)
  if (known !== undefined) return known
  const [claims, requestId] = [textPlaceholder(0), textPlaceholder(1)]
  const created = sessionStatements({ ...session, claims, requestId }, defaults, connection)
    .map(statement => createTemplate(statement) as Template<Statement>)
  ofConnection.set(key, created)
  templates.set(connection, ofConnection)
  return created
}
