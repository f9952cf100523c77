/**
 * Rows → the bytes of the answer. What PostgreSQL rendered is passed on as it is: not parsed, not
 * written again.
 */
import type { Plan } from '../plan/nodes.ts'

const head = Buffer.from('{"error":null,"data":{')
const tail = Buffer.from('}}')

/**
 * From this many bytes on the answer stays in pieces: put together, one of 51 MB took 3 times its
 * size at the peak, in pieces twice.
 */
export const manyBytes = 256 * 1024

/**
 * `{"error":null,"data":{"<op id>":[row, …], …}}`, in one piece or, when it is large, in several;
 * `rows` are JSON arrays (counts with `return=minimal`), one an operation, in the order of the
 * plan.
 */
export function renderBody (plan: Plan, rows: readonly Buffer[]): readonly Buffer[] {
  // An operation id is an identifier, so it needs no escaping in JSON.
  const members = plan.operations.flatMap((
    { id },
    i
  ) => [Buffer.from(`${i === 0 ? '' : ','}"${id}":`), rows[i] as Buffer])
  const pieces = [head, ...members, tail]
  return countBytes(pieces) < manyBytes ? [Buffer.concat(pieces)] : pieces
}

/** Bytes of all pieces together. */
export function countBytes (pieces: readonly Buffer[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0)
}
