/**
 * Converts the schemas of schemas/ to JSON Schema 2020-12. A schema with a `title` becomes a
 * component, which other schemas refer to. Our own keywords (schemas/filter.ts) are removed, or
 * replaced by keywords of JSON Schema with the same meaning.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import type { Config } from '../../schemas/config.ts'
import { referenceAttempt, type ReferenceKind } from '../../schemas/operand.ts'
import { maxIdentifierBytes, operations } from '../../schemas/operation.ts'
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import { mapChildren } from '../named/schema-parts.ts'

export type JsonSchema = Readonly<Record<string, unknown>>

export interface Components {
  /** Components by title. */
  readonly schemas: Readonly<Record<string, JsonSchema>>
  /**
   * Returns the converted schema, or a reference when it is a component. Schemas with the same
   * title must be equal, which a test checks: the first one is used.
   */
  describe(schema: TSchema): JsonSchema
}

/** Titles of recursive schemas by their $id, of which each schema has one. */
const titles = new Map<string, string>()

/** `place`: where the components are in the document, as a JSON Pointer. */
export function collectComponents (place = '/components/schemas'): Components {
  const schemas: Record<string, JsonSchema> = {}
  const describe = (schema: TSchema): JsonSchema => {
    if (schema[Kind] === 'This') {
      return refer(schema, place, titles.get(schema['$ref'] as string) as string)
    }
    const { $id, title } = schema
    if (title === undefined) return write(schema, describe)
    if ($id !== undefined) titles.set($id, title)
    schemas[title] ??= write(schema, describe)
    return refer(schema, place, title)
  }
  return { schemas, describe }
}

type Describe = (schema: TSchema) => JsonSchema

function refer ({ meaning }: TSchema, place: string, title: string): JsonSchema {
  return {
    $ref: `#${place}/${title}`,
    ...(meaning === undefined ? {} : { description: meaning as unknown })
  }
}

/** All keywords that are not ours stay, with the schemas in them. */
function write (schema: TSchema, describe: Describe): JsonSchema {
  const {
    $id, title, meaning, issueCode, emptyCode, unknownCode, exact, nested,
    described, description, expected, name, keys, reference, anyOf = [], patternProperties = {},
    ...words
  } = schema as Readonly<Record<string, unknown>> & OwnWords
  if (described !== undefined) return describe(described)
  const variants = flatten(anyOf)
  const text = description ?? expected
  const [others] = Object.values(patternProperties)
  return {
    ...text !== undefined && { description: text },
    ...mapChildren(words as JsonObject, part =>
      isObject(part) ? describe(part as unknown as TSchema) as Json : part),
    ...schema[Kind] === 'Integer' && words['maximum'] === undefined &&
      { maximum: Number.MAX_SAFE_INTEGER },
    ...name && nameWords[name],
    ...reference && referenceWords[reference],
    ...keys && { propertyNames: nameWords[keys] },
    ...others && { additionalProperties: describe(others) },
    ...variants.length > 0 && writeUnion(variants, describe)
  }
}

/** Keywords that are written in another form. */
interface OwnWords {
  readonly described?: TSchema
  readonly description?: string
  readonly expected?: string
  readonly name?: keyof typeof nameWords
  readonly keys?: keyof typeof nameWords
  readonly reference?: ReferenceKind
  readonly anyOf?: readonly TSchema[]
  /** Of a record, which has one. */
  readonly patternProperties?: Readonly<Record<string, TSchema>>
}

/** For `name` and `keys`. Never stricter than the planner, which counts bytes and reads paths. */
const nameWords = {
  column: { minLength: 1, maxLength: maxIdentifierBytes },
  plain: { minLength: 1, maxLength: maxIdentifierBytes, not: { pattern: '->' } },
  path: { minLength: 1 }
}

const listReference = referenceAttempt.source.replace('(?:\\.|$)', '\\.\\*\\.')

const referenceWords: Readonly<Record<ReferenceKind, JsonSchema>> = {
  value: { not: { pattern: listReference } },
  list: { pattern: listReference },
  any: {},
  none: { not: { pattern: referenceAttempt.source } }
}

/** Constants become one `enum`, for which code generators create one type. */
function writeUnion (variants: readonly TSchema[], describe: Describe): JsonSchema {
  const constants = variants.filter(isConstant).map(({ const: value = null }) =>
    value as string | boolean | null
  )
  if (constants.length < 2) return { anyOf: variants.map(describe) }
  const types = new Set(constants.map(value => value === null ? 'null' : typeof value))
  const words = { ...types.size === 1 && { type: [...types][0] }, enum: constants }
  const others = variants.filter(variant => !isConstant(variant)).map(describe)
  return others.length === 0 ? words : { anyOf: [words, ...others] }
}

/** Nested unions without a title become parts of the union. */
function flatten (variants: readonly TSchema[]): readonly TSchema[] {
  return variants.flatMap(variant =>
    variant[Kind] === 'Union' && variant.title === undefined
      ? flatten(variant['anyOf'] as readonly TSchema[])
      : [variant]
  )
}

function isConstant (schema: TSchema): boolean {
  return schema[Kind] === 'Literal' || schema[Kind] === 'Null'
}

/**
 * Returns the components, with the operations and what the schemas of single operations do not
 * contain: the union of the operations, no additional members, and the limit of rows. The service
 * itself ignores a `values`, `set` or `where` that has no meaning for an operation; a client does
 * not need them.
 */
export function describeOperations (
  components: Components,
  { MAX_ROWS }: Pick<Config, 'MAX_ROWS'>
): Components['schemas'] {
  const kinds = Object.entries(operations).map(([op, schema]: readonly [string, TSchema]) => ({
    op,
    title: schema.title as string,
    $ref: components.describe(schema)['$ref'] as string
  }))
  const { schemas } = components
  const closed = Object.fromEntries(
    kinds.map(({ title }) => [title, { ...schemas[title], additionalProperties: false }])
  )
  return {
    Operation: {
      oneOf: kinds.map(({ $ref }) => ({ $ref })),
      discriminator: {
        propertyName: 'op',
        mapping: Object.fromEntries(kinds.map(({ op, $ref }) => [op, $ref]))
      }
    },
    ...schemas,
    ...closed,
    Insert: changeMember(closed['Insert'] as JsonSchema, 'values', values =>
      ({ ...values, maxItems: MAX_ROWS }))
  }
}

/** Returns the schema of an object with another schema of one member. */
export function changeMember (
  schema: JsonSchema,
  name: string,
  change: (member: JsonSchema) => JsonSchema
): JsonSchema {
  const properties = schema['properties'] as Readonly<Record<string, JsonSchema>>
  return {
    ...schema,
    properties: { ...properties, [name]: change(properties[name] as JsonSchema) }
  }
}
