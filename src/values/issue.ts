/**
 * Why a value cannot be stored exactly in a type.
 */
import type { Type } from '../catalogue/type.ts'

/**
 * - `member`: a composite has no such attribute; its name ends the path
 * - `list`: the type takes one value, and this is an array or an object
 * - `array`: the type takes an array, and this is an object, a number or a boolean
 * - `object`: the type takes an object, and this is an array, a number or a boolean
 * - `bounds`: a range takes an array of two bounds
 * - `dimension`: the first element of an array of JSON is a list that a reference or a parameter
 *   gives
 * - `empty`: an empty array inside an array
 * - `ragged`: the arrays inside an array differ in length or depth
 * - `unknown`: the parts of the type are not known
 * - `other`: this is a value of an earlier operation, whose type has other parts
 * - `json`: the type is a composite, and this is an array or an object of an earlier operation
 * - `type`: the type of this parameter of a function is not known
 * - `null`: this is the JSON null, and the type is neither json nor jsonb
 * - `key`: this is NULL, and a part of a key
 * - `$append`: the current value is not an array
 * - `$merge`: the current value or the operand is not a jsonb object
 *
 * What the type would drop without an error:
 * - `digits`: digits after the point, or with a negative scale before it
 * - `characters`, `bytes`: the end of a text
 * - `fraction`: digits of a second
 * - `zone`: an offset or a time zone
 * - `day`: the date of a time
 * - `clock`: the time of a date
 * - `fields`: what is smaller than the last field of an interval
 * - `form`: perhaps a part of a text that is not understood
 * - `parts`: perhaps a part of a text that is too long to check each of its parts
 */
export type WriteProblem =
  | 'member'
  | 'list'
  | 'array'
  | 'object'
  | 'bounds'
  | 'dimension'
  | 'empty'
  | 'ragged'
  | 'unknown'
  | 'other'
  | 'json'
  | 'type'
  | 'null'
  | 'key'
  | '$append'
  | '$merge'
  | 'digits'
  | 'characters'
  | 'bytes'
  | 'fraction'
  | 'zone'
  | 'day'
  | 'clock'
  | 'fields'
  | 'form'
  | 'parts'

/** Why a value does not fit a type. */
export interface WriteIssue {
  readonly problem: WriteProblem
  /** The members and positions inside the value. */
  readonly path: ReadonlyArray<string | number>
  /** The type of the part that does not fit; undefined: it does not matter. */
  readonly type?: Type
}

/** The issue of a whole value. */
export function issueOf (problem: WriteProblem, type: Type): WriteIssue {
  return { problem, path: [], type }
}
