/**
 * Finds the types in which the rows of an upload are written while they arrive.
 */
import type { Plan } from '../plan/plan.ts'
import { withConnection } from '../postgres/pool.ts'
import { columnsChanged } from '../sql/statement/slot.ts'
import type { MembersByPosition } from '../values/rows.ts'
import type { Database } from './decorators.ts'
import { readTypes } from './execute.ts'

/** What the statements of an upload take of its rows. */
interface FoundMembers {
  readonly members: MembersByPosition
  /** Reads the types again. Throws `serialization_failure` if they have changed since. */
  readonly compareTypes: () => Promise<void>
}

/**
 * Returns what the statements of an upload take of its rows. Types that are not known are read
 * first. Throws `overloaded`, `database_unavailable` or `deadline_exceeded` if there is no
 * connection until `deadline`, a time of performance.now().
 */
export async function findRowMembers (
  plan: Plan,
  { pool, compiler }: Pick<Database, 'pool' | 'compiler'>,
  deadline: number
): Promise<FoundMembers> {
  const read = (which: 'unknown' | 'all'): Promise<void> =>
    withConnection(pool, deadline, async connection => {
      const query = compiler.typesOf(plan, connection.engine)[which]()
      if (query !== undefined) await readTypes(connection, query)
    }, {})
  const types = compiler.typesOf(plan, 'postgresql')
  if (types.unknown() !== undefined) await read('unknown')
  types.compile(() => [])
  return {
    members: compiler.rowMembersOf(plan),
    async compareTypes () {
      await read('all')
      if (types.renew()) throw columnsChanged()
    }
  }
}
