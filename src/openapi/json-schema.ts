/**
 * Converts the schemas of schemas/ to JSON Schema 2020-12. A schema with a `title` becomes a
 * component, which other schemas refer to. Our own keywords (schemas/filter.ts) are removed, or
 * replaced by keywords of JSON Schema with the same meaning.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import type { Config } from '../../schemas/config.ts'
import { referenceAttempt, type ReferenceKind } from '../../schemas/operand.ts'
import { maxIdentifierBytes, operations } from '../../schemas/operation.ts'

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

/** Keywords of JSON Schema that contain no schema of ours. */
const plainWords = [
  'type',
  'const',
  'pattern',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'required',
  'not',
  'if',
  'then',
  'else',
  'dependentRequired',
  'dependentSchemas',
  'default'
]

function write (schema: TSchema, describe: Describe): JsonSchema {
  if (schema['described'] !== undefined) return describe(schema['described'] as TSchema)
  const words = {
    ...Object.fromEntries(
      plainWords.filter(word => schema[word] !== undefined).map(word => [word, schema[word]])
    ),
    ...(schema[Kind] === 'Integer' && schema['maximum'] === undefined
      ? { maximum: Number.MAX_SAFE_INTEGER }
      : {}),
    ...nameWords[schema['name'] as keyof typeof nameWords],
    ...referenceWords[schema['reference'] as ReferenceKind],
    ...writeUnion(schema, describe),
    ...writeObject(schema, describe),
    ...(schema['items'] === undefined ? {} : { items: describe(schema['items'] as TSchema) })
  }
  const description = schema.description ?? schema['expected'] as string | undefined ??
    describeWords(schema)
  return description === undefined ? words : { description, ...words }
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

/**
 * Constants become one `enum`, for which code generators create one type. Nested unions without a
 * title are flattened.
 */
function writeUnion (schema: TSchema, describe: Describe): JsonSchema {
  if (schema[Kind] !== 'Union') return {}
  const variants = flatten(schema)
  const constants = variants.filter(isConstant).map(({ const: value = null }) =>
    value as string | boolean | null
  )
  const types = new Set(constants.map(value => value === null ? 'null' : typeof value))
  const words = constants.length < 2
    ? undefined
    : { ...(types.size === 1 ? { type: [...types][0] } : {}), enum: constants }
  const others = (words === undefined ? variants : variants.filter(variant => !isConstant(variant)))
    .map(describe)
  if (words === undefined) return { anyOf: others }
  return others.length === 0 ? words : { anyOf: [words, ...others] }
}

function flatten (union: TSchema): readonly TSchema[] {
  return (union['anyOf'] as readonly TSchema[]).flatMap(variant =>
    variant[Kind] === 'Union' && variant.title === undefined ? flatten(variant) : [variant]
  )
}

function isConstant (schema: TSchema): boolean {
  return schema[Kind] === 'Literal' || schema[Kind] === 'Null'
}

function describeWords (schema: TSchema): string | undefined {
  const said = schema[Kind] === 'Union'
    ? flatten(schema).filter(({ description, const: value }) =>
      description !== undefined && value !== undefined
    )
    : []
  return said.length === 0
    ? undefined
    : said.map(({ description, const: value }) => `\`${String(value)}\`: ${String(description)}`)
      .join('; ')
}

function writeObject (schema: TSchema, describe: Describe): JsonSchema {
  const properties = schema['properties'] as Readonly<Record<string, TSchema>> | undefined
  const [others] = schema[Kind] === 'Record'
    ? Object.values(schema['patternProperties'] as Record<string, TSchema>)
    : [schema['additionalProperties'] as TSchema | false | undefined]
  const keys = schema['keys'] as keyof typeof nameWords | undefined
  return {
    ...(properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(
            Object.entries(properties).map(([name, property]) => [name, describe(property)])
          )
        }),
    ...(others === undefined
      ? {}
      : { additionalProperties: others === false ? false : describe(others) }),
    ...(keys === undefined ? {} : { propertyNames: nameWords[keys] })
  }
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
