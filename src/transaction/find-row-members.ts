/**
 * Finds the types in which the rows of an upload are written while they arrive.
 */
import type { Plan } from '../plan/plan.ts'
import { Lease } from '../postgres/pool.ts'
import type { MembersByPosition } from '../values/rows.ts'
import type { Database } from './decorators.ts'
import { readTypes } from './execute.ts'

/**
 * Returns what the statements of a plan take of rows. Types that are not known are read first.
 * Throws `overloaded`, `database_unavailable` or `deadline_exceeded` if there is no connection
 * until `deadline`, a time of performance.now().
 */
export async function findRowMembers (
  plan: Plan,
  { pool, compiler }: Pick<Database, 'pool' | 'compiler'>,
  deadline: number
): Promise<MembersByPosition> {
  if (compiler.typesOf(plan, 'postgresql').unknown() !== undefined) {
    using lease = new Lease(pool, await pool.acquire(deadline))
    lease.endBy(deadline)
    const { connection } = lease
    const unknown = compiler.typesOf(plan, connection.engine).unknown()
    if (unknown !== undefined) await readTypes(connection, unknown)
  }
  return compiler.rowMembersOf(plan)
}
