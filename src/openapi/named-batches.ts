/**
 * Describes the named batches: one path for each, with the schema of its parameters. Their
 * responses are components, because they are the same for all.
 */
import type { Config } from '../../schemas/config.ts'
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import type { JsonSchema } from './json-schema.ts'

export interface DescribedBatch {
  readonly name: string
  readonly description: string | undefined
  /** The roles that may run it; undefined: all. */
  readonly roles: ReadonlySet<string> | undefined
  /** The JSON Schema of its parameters, with references by path; empty: it has none. */
  readonly schema: JsonObject
}

/** An operation of OpenAPI. */
export type Operation = Readonly<Record<string, unknown>>

export interface NamedBatchParts {
  readonly paths: Readonly<Record<string, { readonly post: Operation }>>
  readonly schemas: Readonly<Record<string, JsonSchema>>
  readonly responses: Readonly<Record<string, unknown>>
}

/** `template`: an operation with the headers and responses that all named batches have. */
export function describeNamedBatches (
  batches: Iterable<DescribedBatch>,
  template: Operation,
  { ANON_ROLE }: Pick<Config, 'ANON_ROLE'>
): NamedBatchParts {
  const paths: Record<string, { readonly post: Operation }> = {}
  const schemas: Record<string, JsonSchema> = {}
  const responses = Object.entries(template['responses'] as object)
  for (const { name, description, roles, schema } of batches) {
    const component = `${name}_params`
    schemas[component] = moveSchema(schema, `#/components/schemas/${component}`)
    const isForAnonymous = roles === undefined || (ANON_ROLE !== undefined && roles.has(ANON_ROLE))
    paths[`/batches/${name}`] = {
      post: {
        ...template,
        operationId: name,
        summary: `Run the batch "${name}"`,
        description: describe(description, roles),
        security: (template['security'] as readonly object[]).filter(requirement =>
          isForAnonymous || Object.keys(requirement).length > 0),
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { $ref: `#/components/schemas/${component}` } } }
        },
        responses: Object.fromEntries(
          responses.map(([status]) => [status, { $ref: `#/components/responses/named_${status}` }])
        )
      }
    }
  }
  return {
    paths,
    schemas,
    responses: Object.fromEntries(
      responses.map(([status, response]) => [`named_${status}`, response as unknown])
    )
  }
}

function describe (description = '', roles: ReadonlySet<string> | undefined): string {
  const allowed = roles === undefined
    ? []
    : [`Roles: ${[...roles].map(role => `\`${role}\``).join(', ')}.`]
  return [description, ...allowed].filter(text => text !== '').join('\n\n')
}

/** Keywords of JSON Schema that contain schemas by name. */
const named = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']
/** Keywords that contain data. */
const data = ['const', 'enum', 'default', 'examples']

/** Returns a schema whose references to itself hold at another place of a document. */
function moveSchema (schema: JsonObject, place: string): JsonSchema {
  if (Object.keys(schema).length === 0) return { type: 'object', additionalProperties: false }
  const move = (node: Json): Json => {
    if (Array.isArray(node)) return node.map(move)
    if (!isObject(node)) return node
    return Object.fromEntries(
      Object.entries(node).map(([word, value]) => [word, moveMember(word, value)])
    )
  }
  const moveMember = (word: string, value: Json): Json => {
    if (word === '$ref') return `${place}${(value as string).slice(1)}`
    if (data.includes(word)) return value
    if (!named.includes(word) || !isObject(value)) return move(value)
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, move(part)]))
  }
  return move(schema) as JsonSchema
}
