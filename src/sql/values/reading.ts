/**
 * Decides how a value of an earlier operation is read in a type, by the types of both ends.
 */
import { FIRST_CREATED_OID, TypeOid } from '../../catalogue/built-in.ts'
import { baseOf, type ArrayType, type Type } from '../../catalogue/type.ts'
import type { WriteProblem } from '../../values/issue.ts'
import { isJsonType } from './value-type.ts'

/**
 * How a value is read:
 * - `text`: as the text of its own type
 * - `scalar`: as JSON that is one value
 * - `checked`: as JSON that must be one value, or in an array a list of such values
 * - `json`: as any JSON
 * - `refused`: the type cannot hold it
 */
export type Reading =
  | { readonly as: 'text' | 'scalar' | 'checked' | 'json' }
  | { readonly as: 'refused', readonly problem: WriteProblem }

const TEXT: Reading = { as: 'text' }
const SCALAR: Reading = { as: 'scalar' }
const CHECKED: Reading = { as: 'checked' }
const JSON: Reading = { as: 'json' }
const LIST: Reading = { as: 'refused', problem: 'list' }
const OTHER: Reading = { as: 'refused', problem: 'other' }

/**
 * Returns how a value is read in a type other than json and jsonb. `source`: the type of the value;
 * undefined: it is not known.
 */
export function readingOf (source: Type | undefined, target: Type): Reading {
  const to = baseOf(target)
  const from = source && baseOf(source)
  if (from === undefined || isJsonType(from)) return readJson(to)
  switch (from.kind) {
    case 'array':
      if (to.kind === 'array') return readArray(from, to)
      return takesJson(to) ? JSON : isScalar(to) ? LIST : OTHER
    case 'composite':
      return from.oid === to.oid ? TEXT : isScalar(to) ? LIST : OTHER
    case 'unknown':
      return from.oid === to.oid ? TEXT : readJson(to)
    case 'base':
      if (from.oid < FIRST_CREATED_OID) return SCALAR
      // A user can define a cast to json.
      return from.oid === to.oid ? TEXT : readJson(to)
    default:
      return SCALAR
  }
}

function readJson (to: Type): Reading {
  return takesJson(to) ? JSON : CHECKED
}

/** Whether the text of a type is that of a JSON array, or is taken for one. */
function takesJson (to: Type): boolean {
  if (to.kind === 'range' || to.kind === 'multirange') return true
  return to.kind === 'base' && to.form === 'list'
}

function isScalar ({ kind }: Type): boolean {
  return kind === 'base' || kind === 'enum'
}

function readArray (from: ArrayType, to: ArrayType): Reading {
  if (from.oid === to.oid) return TEXT
  const [source, target] = [baseOf(from.element), baseOf(to.element)]
  if (isJsonType(target)) return isJsonType(source) ? TEXT : JSON
  const reading = readingOf(source, target)
  if (reading.as !== 'scalar') return reading
  return source.kind === 'base' && OTHER_IN_JSON.has(source.oid) ? JSON : TEXT
}

/** Types whose text in an array is not that in JSON. */
const OTHER_IN_JSON: ReadonlySet<number> =
  new Set([TypeOid.bool, TypeOid.timestamp, TypeOid.timestamptz])

/** Whether the JSON of a type is one value, whose text is that of the type. */
export function isScalarType (type: Type): boolean {
  const base = baseOf(type)
  if (base.kind === 'base') return base.oid < FIRST_CREATED_OID && !isJsonType(base)
  return base.kind === 'enum' || base.kind === 'range' || base.kind === 'multirange'
}
