/**
 * Writes JSON with references in it as the JSON that PostgreSQL converts to a type: its values are
 * written as `writeMember` writes them, and the references stay where they are.
 */
import {
  baseOf,
  type ArrayType,
  type CompositeType,
  type RangeType,
  type Type
} from '../catalogue/type.ts'
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import type { WriteIssue } from './issue.ts'
import { writeMember } from './write.ts'

type Path = WriteIssue['path']

/** What is done with the parts of a value. */
interface MixedParts {
  /** Whether a part contains a reference. */
  readonly refers: (value: Json) => boolean
  /**
   * Called with a string that may stand for a reference. Returns what the reference gives: a list,
   * one value, or either; undefined: the string is data. `list`: the array that contains it.
   */
  readonly meet: (
    value: string,
    type: Type,
    path: Path,
    list: ArrayType | undefined
  ) => 'list' | 'value' | 'any' | undefined
  /**
   * Called with the bounds of a range. Returns the string that stands for it; undefined: a bound
   * contains a reference and is not one itself.
   */
  readonly meetRange: (bounds: readonly Json[], type: RangeType) => Json | undefined
  /** Called for a part that does not fit its type. */
  readonly report: (issue: WriteIssue) => void
}

/** Returns the JSON, or null if a part does not fit. */
export function writeMixed (value: Json, type: Type, parts: MixedParts, path: Path = []): Json {
  if (typeof value === 'string' && parts.meet(value, type, path, undefined) !== undefined) {
    return value
  }
  if (!parts.refers(value)) {
    return writeMember(value, type, issue =>
      parts.report({ ...issue, path: [...path, ...issue.path] }))
  }
  const base = baseOf(type)
  switch (base.kind) {
    case 'array':
      return isList(value)
        ? writeList(value, base, parts, path)
        : refuse('array', base, parts, path)
    case 'composite':
      return isObject(value)
        ? writeObject(value, base, parts, path)
        : refuse('object', base, parts, path)
    case 'range':
      return (isList(value) && value.length === 2 && !value.includes(null)
        ? parts.meetRange(value.map((bound, i) =>
          writeMixed(bound, base.subtype, parts, [...path, i])), base)
        : undefined) ?? refuse('bounds', base, parts, path)
    case 'multirange':
      return refuse('bounds', base, parts, path)
    default:
      return base.kind === 'base' && (base.form === 'json' || base.form === 'list')
        ? value
        : refuse('list', base, parts, path)
  }
}

function refuse (
  problem: WriteIssue['problem'],
  type: Type,
  { report }: MixedParts,
  path: Path
): null {
  report({ problem, path, type })
  return null
}

/**
 * A list of lists has one dimension more. The first element decides that, as in `write`: the next
 * ones may be lists only if it is one.
 */
function writeList (
  list: readonly Json[],
  type: ArrayType,
  parts: MixedParts,
  path: Path
): Json {
  const met = list.map((item, i) =>
    typeof item === 'string' ? parts.meet(item, type.element, [...path, i], type) : undefined)
  const isDeep = met[0] === 'list' || isList(list[0])
  const length = list.find(isList)?.length
  return list.map((item, i) => {
    const inner = [...path, i]
    if (met[i] === undefined && !isDeep) return writeMixed(item, type.element, parts, inner)
    if (met[i] === 'any' || met[i] === (isDeep ? 'list' : 'value')) return item
    if (!isList(item)) return refuse('ragged', type, parts, inner)
    if (item.length === 0) return refuse('empty', type, parts, inner)
    return item.length === length
      ? writeList(item, type, parts, inner)
      : refuse('ragged', type, parts, inner)
  })
}

function isList (value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value)
}

function writeObject (
  object: JsonObject,
  { attributes, ...type }: CompositeType,
  parts: MixedParts,
  path: Path
): Json {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => {
    const attribute = attributes.get(name)
    const inner = [...path, name]
    return [name, attribute === undefined
      ? refuse('member', { attributes, ...type }, parts, inner)
      : writeMixed(value, attribute, parts, inner)]
  }))
}
