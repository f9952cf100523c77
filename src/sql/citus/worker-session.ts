/**
 * Sets on the workers of Citus what policies and values depend on. Settings made by `set_config`
 * stay on the coordinator; Citus repeats only SET LOCAL on every worker of the transaction.
 */
import {
  identifier,
  join,
  render,
  requestConstant,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import { FIXED_SETTINGS, type ConnectionFacts } from '../../postgres/facts.ts'
import { searchPath, type Session, type SessionDefaults } from '../frame/session.ts'
import type { Statement } from '../statement/statement.ts'

/** Settings that Citus sets on its connections to workers itself. */
const SET_BY_CITUS: ReadonlySet<string> = new Set(['client_encoding'])

/**
 * Builds the statements that set on workers what policies and values depend on. They are utility
 * statements, so no function can replace them. Workers also apply the settings of the role, because
 * Citus logs in there as the role; only the timeouts override them.
 */
export function workerSettings (
  session: Session,
  defaults: SessionDefaults,
  facts: Pick<ConnectionFacts, 'roleSettings' | 'extraSchemas'>
): readonly Statement[] {
  const ofRole = new Map(facts.roleSettings.get(session.role))
  const timeout = (name: string, milliseconds: number): readonly [string, string] =>
    [name, ofRole.get(name) ?? String(milliseconds)]
  const values: ReadonlyArray<readonly [name: string, value: string]> = [
    timeout('statement_timeout', defaults.statementTimeoutMs),
    timeout('lock_timeout', defaults.lockTimeoutMs),
    ['request.jwt.claims', session.claims],
    ['request.id', session.requestId],
    ...FIXED_SETTINGS.filter(([name]) => !SET_BY_CITUS.has(name))
  ]
  return [
    sql`set local citus.propagate_set_commands to local`,
    // Without it, selects would read on workers outside of the transaction and its settings.
    sql`set local citus.select_opens_transaction_block to on`,
    sql`set local role ${identifier(session.role)}`,
    sql`set local search_path to ${searchPath(defaults, facts)}`,
    ...values.map(([name, value]) =>
      sql`set local ${settingName(name)} to ${requestConstant(value)}`
    ),
    sql`set local citus.propagate_set_commands to none`
  ].map(statement => ({ ...render(statement), prepare: false }))
}

function settingName (name: string): Fragment {
  return join(name.split('.').map(identifier), sql`.`)
}
