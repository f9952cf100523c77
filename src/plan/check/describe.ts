/**
 * Describes schemas and places of a request, for the messages of issues.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import { capitalize } from '../../../schemas/filter.ts'
import { operators } from '../../../schemas/operator.ts'
import { suggest } from '../../errors/suggestion.ts'
import { isNumber, type Json } from '../../json/parse.ts'
import type { Path } from '../context.ts'
import { adviseOperator } from './foreign-operators.ts'

/** The end of a path: `"sku"` for a member, `Element 0 of "order"` for an element of an array. */
export function nameOf (path: Path): string {
  const last = path.at(-1)
  return typeof last === 'number'
    ? `Element ${last} of ${nameOf(path.slice(0, -1))}`
    : `"${String(last)}"`
}

/** Describes what a schema accepts instead of `value`, to follow "must be". */
export function describeExpected (schema: TSchema, value: Json, path: Path): string {
  // If an array was sent and an array is expected, its number of elements is wrong.
  const fits = schema[Kind] === 'Array' && Array.isArray(value)
  const text = describe(fits ? { ...schema, expected: undefined } : schema)
  return text.replaceAll(/<(\w+)>/g, (_, kind: SampleKind) => samples[kind](value, path))
}

type SampleKind = 'name' | 'scalar' | 'column' | 'order'

/** Texts for the placeholders in `expected`, such as `<name>`. */
const samples: Readonly<Record<SampleKind, (value: Json, path: Path) => string>> = {
  name: (_, path) => JSON.stringify(path.at(-1)),
  scalar: sampleScalar,
  column: value => JSON.stringify(readOrder(value).column),
  order: value => {
    const { column, direction } = readOrder(value)
    return `{"${column}": "${direction}"}`
  }
}

/**
 * A scalar of the same type. The value itself is not repeated: clients and proxies log responses.
 */
function sampleScalar (value: Json): string {
  if (isNumber(value)) return '10'
  return typeof value === 'boolean' ? 'true' : '"apple"'
}

/** Maximum length of a text that is taken for the name of a column. */
const MAX_NAME_LENGTH = 20

/**
 * Reads a column and its direction as a client may have written them: `sku`, `sku.desc` or `sku
 * desc`.
 */
function readOrder (value: Json): { readonly column: string, readonly direction: string } {
  const text = typeof value === 'string' && value.length <= MAX_NAME_LENGTH ? value : ''
  const [, column = 'sku', direction = 'asc'] = /^(\w+|\*)(?:[ .](asc|desc))?$/i.exec(text) ?? []
  return { column, direction: direction.toLowerCase() }
}

/**
 * Returns the message for an unknown name. It says what to write instead, or lists all known names.
 */
export function describeUnknown (
  kind: 'member' | 'operator' | 'modifier',
  name: string,
  known: readonly string[]
): string {
  const advice = kind === 'operator' ? adviseOperator(name, known) : undefined
  if (advice !== undefined) return `Unknown operator "${name}". ${advice}`
  const near = kind === 'operator' ? suggestOperator(name, known) : suggest(name, known)
  const help = near === undefined
    ? `${capitalize(kind)}s: ${known.join(', ')}.`
    : `Did you mean "${near}"?`
  return `Unknown ${kind} "${name}". ${help}`
}

/**
 * Also finds the name for an operator of SQL (`>=`, `any`), or for one with a prefix (`$eq`,
 * `_eq`).
 */
function suggestOperator (name: string, known: readonly string[]): string | undefined {
  const forms = [`<column> ${name} <operand>`, `<column> = ${name} (<operand>)`]
  const symbol = Object.entries(operators).find(([, { sql }]) => forms.includes(sql))?.[0]
  return symbol !== undefined && known.includes(symbol)
    ? symbol
    : suggest(name.replace(/^[$_]+/, ''), known)
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
      return `an integer from 0 to ${Number.MAX_SAFE_INTEGER}, written in digits without quotes`
    case 'Boolean':
      return 'a boolean'
    case 'Null':
      return 'null'
    case 'Literal':
      return JSON.stringify(schema['const'])
    case 'Array':
      return `${schema['minItems'] === undefined ? 'an array' : 'a non-empty array'}${
        schema['maxItems'] === undefined ? '' : ` of at most ${String(schema['maxItems'])} elements`
      }`
    default:
      return Array.isArray(schema['required'])
        ? `{${schema['required'].map(name => JSON.stringify(name)).join(', ')}: …}`
        : 'an object'
  }
}

const variants = new WeakMap<TSchema, readonly TSchema[]>()

/**
 * The variants of a union, including those of nested unions. Any other schema is its only variant.
 * The result is cached, because collecting took 4 % of the time of reading a batch.
 */
export function variantsOf (schema: TSchema): readonly TSchema[] {
  const known = variants.get(schema)
  if (known !== undefined) return known
  const found = schema[Kind] === 'Union'
    ? (schema['anyOf'] as readonly TSchema[]).flatMap(variantsOf)
    : [schema]
  variants.set(schema, found)
  return found
}
