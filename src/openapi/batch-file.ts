/**
 * The JSON Schema of the files of batches, for editors: of an array of operations, as it is sent,
 * and of the file of a named batch, whose `"$schema"` names the schema.
 */
import { batchSchema, NamedBatchFile, paramsId } from '../../schemas/batch.ts'
import type { Config } from '../../schemas/config.ts'
import { InsertedParameter, JoinedParameter } from '../../schemas/operation.ts'
import {
  collectComponents,
  type Components,
  type JsonSchema,
  describeOperations
} from './json-schema.ts'

type Definitions = Components['schemas']

/** Returns a schema of JSON Schema 2020-12. */
export function describeBatchFile (
  { MAX_OPS, MAX_ROWS }: Pick<Config, 'MAX_OPS' | 'MAX_ROWS'>
): JsonSchema {
  const components = collectComponents('/$defs')
  const named = [InsertedParameter, JoinedParameter].map(schema => components.describe(schema)) as
    [JsonSchema, JsonSchema]
  const definitions = describeOperations(components, { MAX_ROWS })
  components.describe(NamedBatchFile)
  const { NamedBatchFile: file } = components.schemas as { readonly NamedBatchFile: JsonSchema }
  const { minItems, maxItems, description } = batchSchema(MAX_OPS)
  const list = { type: 'array', minItems, maxItems, items: { $ref: '#/$defs/Operation' } }
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'A batch of Oneflight',
    anyOf: [
      { ...list, description },
      changeMember(file, 'operations', operations => ({ ...operations, ...list }))
    ],
    $defs: allowParameters(definitions, named)
  }
}

/** Adds what only the operations of a named batch may have: lists and rows of its parameters. */
function allowParameters (
  definitions: Definitions,
  [inserted, joined]: readonly [JsonSchema, JsonSchema]
): Definitions {
  const { ListReference, InsertSource, JoinedSource, Insert } = definitions as
    Record<'ListReference' | 'InsertSource' | 'JoinedSource' | 'Insert', JsonSchema>
  const parameter = { type: 'string', pattern: `^\\$${paramsId}\\.` }
  return {
    ...definitions,
    ListReference: { anyOf: [ListReference, parameter] },
    InsertSource: { anyOf: [InsertSource, inserted] },
    JoinedSource: { anyOf: [JoinedSource, joined] },
    Insert: changeMember(Insert, 'values', values => ({ anyOf: [values, parameter] }))
  }
}

function changeMember (
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
