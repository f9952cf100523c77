/**
 * What a plan knows about values that it does not contain: above all the parameters of named
 * batches.
 */
import type { JsonObject } from '../json/parse.ts'

/** A parameter of a named batch. */
export interface Parameter {
  readonly position: number
  /** Whether its values are arrays. */
  readonly isList: boolean
  /** Minimum number of elements of its arrays. Infinity: its values are not arrays. */
  readonly minItems: number
  /** Whether a request may leave it out, although it has no default. */
  readonly isOptional: boolean
  /** Set for a value of a batch without a name: whether it is an object or an array. */
  readonly isNested?: boolean
  /** Set for a value that the service reads in the rows of an earlier operation. */
  readonly isRead?: true
  /** What is known about rows, if its values are arrays of objects. */
  readonly rows?: ParameterRows | undefined
}

/** A parameter whose values are rows. */
export type RowsParameter = Parameter & { readonly rows: ParameterRows }

/** The rows of a parameter. */
export interface ParameterRows {
  /** The members that its schema declares. */
  readonly declared: ReadonlySet<string>
  /** Whether the schema refuses other members. */
  readonly isClosed: boolean
  /** The members that each row has, if all have the same. */
  readonly columns: readonly string[]
  /** The rows themselves. undefined: the plan is used for all rows with these columns. */
  readonly data?: readonly JsonObject[] | undefined
}
