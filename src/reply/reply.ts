/**
 * Rows → the bytes of the answer. What PostgreSQL rendered is passed on as it is: not parsed, not written again.
 */
import type { Plan } from '../plan/nodes.ts'

const head = Buffer.from('{"error":null,"data":{')
const tail = Buffer.from('}}')

/** `{"error":null,"data":{"<op id>":[row, …], …}}`; `rows` are JSON arrays (counts with `return=minimal`), one an operation, in the order of the plan. */
export function reply (plan: Plan, rows: readonly Buffer[]): Buffer {
  // An operation id is an identifier, so it needs no escaping in JSON.
  const members = plan.operations.flatMap(({ id }, i) => [Buffer.from(`${i === 0 ? '' : ','}"${id}":`), rows[i] as Buffer])
  return Buffer.concat([head, ...members, tail])
}
