/**
 * Schemas and places of a request in words, for the messages of faults.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import type { Path } from './nodes.ts'

/** The last step of a path: a member by its name, an element by its place. */
export function nameOf (path: Path): string {
  const last = path.at(-1)
  return typeof last === 'number' ? `Element ${last}` : String(last)
}

/** A schema in words, as the end of "must be …". */
export function describe (schema: TSchema): string {
  if (typeof schema['expected'] === 'string') return schema['expected']
  switch (schema[Kind]) {
    case 'Union': {
      const words = [...new Set(variantsOf(schema).map(describe))]
      return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
    }
    case 'String':
      return 'a string'
    case 'Number':
      return 'a number'
    case 'Integer':
      return `an integer from 0 to ${Number.MAX_SAFE_INTEGER}, in digits alone`
    case 'Boolean':
      return 'a boolean'
    case 'Null':
      return 'null'
    case 'Literal':
      return JSON.stringify(schema['const'])
    case 'Array':
      return `${schema['minItems'] === undefined ? 'an array' : 'a non-empty array'}${
        schema['maxItems'] === undefined ? '' : ` of at most ${String(schema['maxItems'])}`
      }`
    default:
      return Array.isArray(schema['required'])
        ? `{${schema['required'].map(name => JSON.stringify(name)).join(', ')}: …}`
        : 'an object'
  }
}

/** The variants of a union, those of unions inside it too; any other schema is its only one. */
export function variantsOf (schema: TSchema): readonly TSchema[] {
  return schema[Kind] === 'Union'
    ? (schema['anyOf'] as readonly TSchema[]).flatMap(variantsOf)
    : [schema]
}
