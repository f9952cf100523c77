/**
 * What a plan knows about values that it does not contain: their shapes, and the parameters of
 * named batches.
 */
import type { JsonObject } from '../json/parse.ts'

/**
 * The shape of a JSON value, as far as the request shows it:
 * - `scalar`: one value
 * - `list`: an array of values, of any number of dimensions
 * - `object`: an object, or an array that contains one
 * - `array`: an array that contains references, an empty array, or both values and arrays; or a
 *   reference to a list
 * - `reference`: a reference to one value, which may be any JSON
 */
export type JsonShape = 'scalar' | 'list' | 'object' | 'array' | 'reference'

/** A parameter of a named batch. */
export interface Parameter {
  readonly position: number
  /** Whether its values are arrays. */
  readonly isList: boolean
  /** How many elements its arrays have at least. */
  readonly minItems: number
  /** Whether a request may leave it out, although it has no default. */
  readonly isOptional: boolean
  /** The shape of its value. */
  readonly shape: JsonShape
  /** What is known about rows, if its values are arrays of objects. */
  readonly rows?: ParameterRows | undefined
}

/** The rows of a parameter. */
export interface ParameterRows {
  /** The members that its schema declares. */
  readonly declared: ReadonlySet<string>
  /** Whether the schema refuses other members. */
  readonly isClosed: boolean
  /** The members that each row has, if all have the same. */
  readonly columns: readonly string[]
  /** The least certain shapes of members and of paths into them; see keyOfPath. */
  readonly shapes: ReadonlyMap<string, JsonShape>
  /**
   * The rows themselves, in which no string is a reference. undefined: the plan is used for all
   * rows with these columns and shapes.
   */
  readonly data?: readonly JsonObject[] | undefined
}
