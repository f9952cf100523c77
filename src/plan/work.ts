/**
 * The work that a batch causes. Each limit of a batch bounds a count, for example of operations or
 * of conditions, but only their product bounds how long the service is busy with one request.
 *
 * A unit is about a microsecond of the service's processor. Measured with Node 24 on two cores: a
 * body of 1 MiB with 60 000 conditions took 400 ms, one with 160 000 keys of paths 250 ms.
 */
import { failure } from '../errors/catalogue.ts'

/** The units of the parts of a batch, in addition to one for each JSON value that is checked. */
export const units = {
  operation: 100,
  /** An element of a list. */
  element: 0.35,
  /** A condition, an output column, a sort key, an argument, a new value. */
  part: 5,
  /** A member of an object that is checked. */
  name: 0.5,
  /** A key of a path. */
  key: 2,
  /** A character of a name. */
  character: 0.125,
  /** A reference, wherever it stands. */
  reference: 2,
  /** The first time that an operation names a reference. */
  newReference: 2,
  /** A reference or a column of `from` that is an operand of its own. */
  operand: 8,
  /** A reference in `$first`, and a member of `when`. */
  choice: 12,
  /** A table that is read by `exists`, `with` or `from`. */
  table: 30,
  /** A group of rows, which is a statement of its own within the operation. */
  group: 40,
  /** A part that a group repeats. */
  repeated: 2,
  /** A row of an update by `key`. */
  row: 2,
  /** A member of such a row. */
  member: 0.5
} as const

/** The units that a batch may spend. */
export class WorkBudget {
  readonly #limit: number
  #spent = 0

  /** `limit`: MAX_WORK. */
  constructor (limit: number) {
    this.#limit = limit
  }

  get spent (): number {
    return this.#spent
  }

  /** Throws `too_much_work` when the batch spends more units than the limit. */
  spend (units: number, { op, index }: { readonly op: string, readonly index: number }): void {
    this.#spent += units
    if (this.#spent <= this.#limit) return
    throw failure(
      'too_much_work',
      `The batch needs more than ${this.#limit} units of work (MAX_WORK), exceeded in operation ` +
        `${index} ("${op}"). Send its operations in several batches, or its conditions as lists ` +
        '("in") and its values as rows.',
      { op, index }
    )
  }
}
