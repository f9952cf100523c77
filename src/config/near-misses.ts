/**
 * Variables that look like ours and are not. An environment holds many foreign variables, so only
 * the near misses are refused: a `JWT_ALGORITHM` that is silently ignored would be worse than a
 * service that does not start. Never shows a value.
 */

/**
 * Families that other programs use as much as we do (HTTP_PROXY, DB_HOST, DATABASE_NAME,
 * LOG_FORMAT, SQL_HOST): a name in one of them is a near miss only when it is one of ours cut short
 * (DB_SCHEMA).
 */
const SHARED_FAMILIES: readonly string[] = ['HTTP_', 'DB_', 'DATABASE_', 'LOG_', 'SQL_']

/**
 * What Kubernetes adds to every container for a Service called e.g. "queue": QUEUE_SERVICE_HOST,
 * QUEUE_PORT_80_TCP …
 */
const KUBERNETES_LINK = /_(SERVICE_HOST|SERVICE_PORT|PORT)(_|$)/

/**
 * Finds the near misses among the names of an environment; `known` are our own names. A name is one
 * when it lies in the family of one of ours: all words but the last, `MAX_` of `MAX_OPS`,
 * `ADMIN_HTTP_` of `ADMIN_HTTP_PORT`. Answers one line each, with the name that was probably meant.
 */
export function findNearMisses (
  names: readonly string[],
  known: readonly string[]
): readonly string[] {
  const families = known.map(familyOf).filter(family => !SHARED_FAMILIES.includes(family))
  const isNear = (name: string): boolean =>
    families.some(family => name.includes('_') && `${name}_`.startsWith(family)) ||
    known.some(own => own.startsWith(name) && name.length > familyOf(own).length)
  return names
    .filter(name => !known.includes(name) && !KUBERNETES_LINK.test(name) && isNear(name))
    .map(name => `${name}: unknown variable; did you mean ${closest(name, known)}?`)
}

function familyOf (name: string): string {
  return name.slice(0, name.lastIndexOf('_') + 1)
}

/**
 * The known name with the longest common beginning: typing errors and cut names are usually near
 * the end.
 */
function closest (name: string, known: readonly string[]): string {
  return known.reduce((best, own) =>
    commonLength(name, own) > commonLength(name, best) ? own : best
  )
}

function commonLength (a: string, b: string): number {
  let length = 0
  while (length < a.length && a[length] === b[length]) length++
  return length
}
