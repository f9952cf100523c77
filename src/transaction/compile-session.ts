/**
 * Compiles the session of a batch. Its statements are the same for all batches of a role on one
 * connection, except for the claims and the request id, so they are compiled once.
 */
import { LRUCache } from 'lru-cache'
import { textPlaceholder } from '../plan/shape.ts'
import type { Statement } from '../sql/compile.ts'
import {
  sessionStatements,
  type ConnectionFacts,
  type Session,
  type SessionDefaults
} from '../sql/session.ts'
import { createTemplate, fillTemplate, type Template } from '../sql/template.ts'

type SessionTemplate = ReadonlyArray<Template<Statement>>

/** A connection has few roles, but the names in tokens are not limited. */
const MAX_ROLES = 100

const templates = new WeakMap<ConnectionFacts, LRUCache<string, SessionTemplate>>()

/** `defaults` must be the same for all batches of a connection. */
export function compileSession (
  session: Session,
  defaults: SessionDefaults,
  connection: ConnectionFacts
): readonly Statement[] {
  // The settings of query plans depend on the batch.
  if (session.settings !== undefined) return sessionStatements(session, defaults, connection)
  const ofConnection = templates.get(connection) ??
    new LRUCache<string, SessionTemplate>({ max: MAX_ROLES })
  templates.set(connection, ofConnection)
  const key = `${session.writes === true} ${session.role}`
  const template = ofConnection.get(key) ?? createSessionTemplate(session, defaults, connection)
  ofConnection.set(key, template)
  return template.map(statement => fillTemplate(statement, [session.claims, session.requestId]))
}

function createSessionTemplate (
  session: Session,
  defaults: SessionDefaults,
  connection: ConnectionFacts
): SessionTemplate {
  const [claims, requestId] = [textPlaceholder(0), textPlaceholder(1)]
  return sessionStatements({ ...session, claims, requestId }, defaults, connection)
    .map(statement => createTemplate(statement) as Template<Statement>)
}
