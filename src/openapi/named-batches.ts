/**
 * Describes the named batches: one path for each, with the schema of its parameters. Their
 * responses are components, because they are the same for all.
 */
import type { Config } from '../../schemas/config.ts'
import { mediaTypes } from '../../schemas/http.ts'
import type { JsonObject } from '../json/parse.ts'
import type { NamedBatch } from '../named/named-batch.ts'
import { mapReferences } from '../named/schema-parts.ts'
import { takesUploads } from '../named/upload-parameters.ts'
import type { JsonSchema } from './json-schema.ts'

export type DescribedBatch =
  Pick<NamedBatch, 'name' | 'description' | 'roles' | 'schema' | 'planner'>

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
  { ANON_ROLE, MAX_UPLOAD_ROWS: maxRows }: Pick<Config, 'ANON_ROLE' | 'MAX_UPLOAD_ROWS'>
): NamedBatchParts {
  const paths: Record<string, { readonly post: Operation }> = {}
  const schemas: Record<string, JsonSchema> = {}
  const responses = Object.entries(template['responses'] as object)
  for (const batch of batches) {
    const { name, description, roles, schema } = batch
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
          content: {
            'application/json': { schema: { $ref: `#/components/schemas/${component}` } },
            ...maxRows > 0 && takesUploads(batch) && {
              [mediaTypes.ndjson]: describeUpload(batch, 'one JSON object a line', maxRows),
              [mediaTypes.csv]: describeUpload(batch, 'as CSV with a header', maxRows)
            }
          }
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

function describeUpload (
  { planner: { rowParameters: [name] } }: DescribedBatch,
  form: string,
  maxRows: number
): { readonly schema: JsonSchema } {
  const description =
    `At most ${maxRows} rows of \`${String(name)}\`, ${form}. The other parameters are in the ` +
    'query.'
  return { schema: { type: 'string', description } }
}

function describe (description = '', roles: ReadonlySet<string> | undefined): string {
  const allowed = roles === undefined
    ? []
    : [`Roles: ${[...roles].map(role => `\`${role}\``).join(', ')}.`]
  return [description, ...allowed].filter(text => text !== '').join('\n\n')
}

/** Returns a schema whose references to itself hold at another place of a document. */
function moveSchema (schema: JsonObject, place: string): JsonSchema {
  if (Object.keys(schema).length === 0) return { type: 'object', additionalProperties: false }
  return mapReferences(schema, reference => `${place}${reference.slice(1)}`) as JsonSchema
}
