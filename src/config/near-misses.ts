/**
 * Finds misspelled variables. The environment contains many unrelated variables, so only names that
 * resemble ours are rejected: silently ignoring `JWT_ALGORITHM` would be worse than not starting.
 */
import { closestName } from '../errors/near-name.ts'

/**
 * Prefixes that other programs use, too (HTTP_PROXY, DB_HOST, DATABASE_NAME, LOG_FORMAT, SQL_HOST).
 * A name with one of them is only rejected when it is the beginning of one of ours (DB_SCHEMA).
 */
const SHARED_PREFIXES: readonly string[] = ['HTTP_', 'DB_', 'DATABASE_', 'LOG_', 'SQL_']

/** Variables that Kubernetes sets for a Service: QUEUE_SERVICE_HOST, QUEUE_PORT_80_TCP … */
const KUBERNETES_LINK = /_(SERVICE_HOST|SERVICE_PORT|PORT)(_|$)/

/**
 * Returns one line per misspelled name, with the closest of the `known` names. A name is misspelled
 * when it is unknown, but has the prefix of a known one: all words but the last, `MAX_` of
 * `MAX_OPS`, `ADMIN_HTTP_` of `ADMIN_HTTP_PORT`.
 */
export function findNearMisses (
  names: readonly string[],
  known: readonly string[]
): readonly string[] {
  const prefixes = known.map(prefixOf).filter(prefix => !SHARED_PREFIXES.includes(prefix))
  const isNear = (name: string): boolean =>
    prefixes.some(prefix => name.includes('_') && `${name}_`.startsWith(prefix)) ||
    known.some(own => own.startsWith(name) && name.length > prefixOf(own).length)
  return names
    .filter(name => !known.includes(name) && !KUBERNETES_LINK.test(name) && isNear(name))
    .map(name => `${name}: unknown variable; did you mean ${closestName(name, known)}?`)
}

function prefixOf (name: string): string {
  return name.slice(0, name.lastIndexOf('_') + 1)
}
