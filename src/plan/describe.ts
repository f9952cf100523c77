/**
 * Describes schemas and places of a request, for the messages of issues.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import type { Path } from './context.ts'

/** The last step of a path: `"sku"` for a member, `Element 0` for an element of an array. */
export function nameOf (path: Path): string {
  const last = path.at(-1)
  return typeof last === 'number' ? `Element ${last}` : `"${String(last)}"`
}

/** Describes what a schema accepts, to follow "must be". */
export function describe (schema: TSchema): string {
  if (typeof schema['expected'] === 'string') return schema['expected']
  switch (schema[Kind]) {
    case 'Union': {
      const variants = [...new Set(variantsOf(schema).map(describe))]
      return `${variants.slice(0, -1).join(', ')} or ${variants.at(-1)}`
    }
    case 'String':
      return 'a string'
    case 'Number':
      return 'a number'
    case 'Integer':
      return `an integer from 0 to ${Number.MAX_SAFE_INTEGER}, written in digits only`
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

/** The variants of a union, including those of nested unions. Another schema is its own variant. */
export function variantsOf (schema: TSchema): readonly TSchema[] {
  return schema[Kind] === 'Union'
    ? (schema['anyOf'] as readonly TSchema[]).flatMap(variantsOf)
    : [schema]
}
