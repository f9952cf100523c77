/**
 * Describes the named batches: one path for each, with the schemas of its parameters and of its
 * results. The responses of errors are components, because they are the same for all.
 */
import type { Config } from '../../schemas/config.ts'
import { mediaTypes } from '../../schemas/http.ts'
import type { JsonObject } from '../json/parse.ts'
import type { NamedBatch } from '../named/named-batch.ts'
import { takesUploads } from '../named/upload-parameters.ts'
import { nameComponents, operationIds } from './generated-names.ts'
import type { JsonSchema } from './json-schema.ts'
import { describeResults } from './named-results.ts'
import { moveParameters } from './parameter-schemas.ts'

export type Operation = Readonly<Record<string, unknown>>

interface Response {
  readonly content: Readonly<Record<string, object>>
}

interface Others {
  /** An operation with the headers and responses that all named batches have. */
  readonly template: Operation
  /** Ids of the other operations, and names of the other components. */
  readonly ids: readonly string[]
  readonly components: readonly string[]
}

export function describeNamedBatches (
  batches: readonly NamedBatch[],
  { template, ids: otherIds, components }: Others,
  { ANON_ROLE, MAX_UPLOAD_ROWS: maxRows }: Config
) {
  const ids = operationIds(batches.map(({ name }) => name), otherIds)
  const nameComponent = nameComponents(components)
  const roots = new Map([...ids].map(([name, id]) => [name, nameComponent(`${id}_params`)]))
  const paths: Record<string, { readonly post: Operation }> = {}
  const schemas: Record<string, JsonSchema> = {}
  const { 200: committed, ...failed } =
    template['responses'] as Readonly<Record<string, Response>>
  const statuses = Object.keys(failed)
  for (const batch of batches) {
    const { name, description, roles, schema } = batch
    const component = roots.get(name) as string
    const parameters = Object.keys(schema).length === 0 ? noParameters : schema
    Object.assign(schemas, moveParameters(parameters, component, nameComponent))
    const isForAnonymous = roles === undefined || (ANON_ROLE !== undefined && roles.has(ANON_ROLE))
    paths[`/batches/${name}`] = {
      post: {
        ...template,
        operationId: ids.get(name),
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
        responses: {
          200: describeCommitted(batch, committed as Response),
          ...Object.fromEntries(
            statuses.map(status => [status, { $ref: `#/components/responses/named_${status}` }])
          )
        }
      }
    }
  }
  return {
    paths,
    schemas,
    responses: Object.fromEntries(statuses.map(status => [`named_${status}`, failed[status]]))
  }
}

const noParameters: JsonObject = { type: 'object', additionalProperties: false }

function describeCommitted (batch: NamedBatch, response: Response): Response {
  const schema = describeResults(batch)
  return { ...response, content: { ...response.content, 'application/json': { schema } } }
}

function describeUpload (
  { planner: { rowParameters: [name] } }: NamedBatch,
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
