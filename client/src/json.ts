/**
 * JSON as types: what is answered, and what may be sent.
 */
import type { Reference, ReferenceList } from './reference.ts'

/** Any JSON value. Made as generators write it, so that their columns are known as JSON. */
export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[]

/**
 * JSON that may hold references, bigints and dates anywhere. Members that are `undefined` are left
 * out.
 */
export type JsonInput = JsonScalar | JsonInputObject | readonly JsonInput[]

/** JSON without objects and arrays. */
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
