/**
 * Writes JSON with references in it as the JSON that PostgreSQL converts to a type: its values are
 * written as `writeMember` writes them, and the references stay where they are.
 */
import { baseOf, type ArrayType, type CompositeType, type Type } from '../catalogue/type.ts'
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import { writeMember, type WriteIssue } from './write.ts'

type Path = WriteIssue['path']

/** What is done with the parts of a value. */
export interface MixedParts {
  /** Whether a part contains a reference. */
  readonly refers: (value: Json) => boolean
  /**
   * Called with a string that may stand for a reference. Returns whether it does. `list`: the array
   * of which it is an element.
   */
  readonly meet: (value: string, type: Type, path: Path, list: ArrayType | undefined) => boolean
  /** Called for a part that does not fit its type. */
  readonly report: (issue: WriteIssue) => void
}

/** Returns the JSON, or null if a part does not fit. */
export function writeMixed (value: Json, type: Type, parts: MixedParts, path: Path = []): Json {
  if (typeof value === 'string' && parts.meet(value, type, path, undefined)) return value
  if (!parts.refers(value)) {
    return writeMember(value, type, issue =>
      parts.report({ ...issue, path: [...path, ...issue.path] }))
  }
  const base = baseOf(type)
  switch (base.kind) {
    case 'array':
      return Array.isArray(value)
        ? writeList(value as readonly Json[], base, parts, path)
        : refuse('array', base, parts, path)
    case 'composite':
      return isObject(value)
        ? writeObject(value, base, parts, path)
        : refuse('object', base, parts, path)
    case 'range':
    case 'multirange':
      return value
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

/** A list of lists has one dimension more. */
function writeList (
  list: readonly Json[],
  type: ArrayType,
  parts: MixedParts,
  path: Path
): Json {
  const [first] = list.filter(item => Array.isArray(item))
  const length = first?.length
  return list.map((item, i) => {
    const inner = [...path, i]
    if (typeof item === 'string' && parts.meet(item, type.element, inner, type)) return item
    if (length === undefined) return writeMixed(item, type.element, parts, inner)
    if (Array.isArray(item) && item.length === 0) return refuse('empty', type, parts, inner)
    return Array.isArray(item) && item.length === length
      ? writeMixed(item, type, parts, inner)
      : refuse('ragged', type, parts, inner)
  })
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
