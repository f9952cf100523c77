/**
 * Types of JSON values in results, and in batches.
 */
import type { Reference, ReferenceList } from './reference.ts'

/** Any JSON value. It equals the type of generators, so that their JSON columns are recognized. */
export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[]

/**
 * JSON that may contain references, bigints and dates anywhere. Members that are `undefined` are
 * omitted.
 */
export type JsonInput = JsonScalar | JsonInputObject | readonly JsonInput[]

/** A value of JsonInput that is not an object or array. */
export type JsonScalar =
  | string
  | number
  | bigint
  | boolean
  | null
  | Date
  | Reference<unknown>
  | ReferenceList<unknown>

export interface JsonInputObject {
  readonly [key: string]: JsonInput | undefined
}
