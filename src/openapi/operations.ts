/**
 * The JSON Schema of operations, for the OpenAPI document and for files of batches.
 */
import type { TSchema } from '@sinclair/typebox'
import type { Config } from '../../schemas/config.ts'
import { operations } from '../../schemas/operation.ts'
import type { Components, JsonSchema } from './json-schema.ts'

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
  const closed = kinds.map(({ title }) =>
    [title, { ...schemas[title], additionalProperties: false }] as const
  )
  const { Insert } = schemas
  const properties = Insert?.['properties'] as Readonly<Record<string, JsonSchema>>
  return {
    Operation: {
      oneOf: kinds.map(({ $ref }) => ({ $ref })),
      discriminator: {
        propertyName: 'op',
        mapping: Object.fromEntries(kinds.map(({ op, $ref }) => [op, $ref]))
      }
    },
    ...schemas,
    ...Object.fromEntries(closed),
    Insert: {
      ...Insert,
      properties: { ...properties, values: { ...properties['values'], maxItems: MAX_ROWS } },
      additionalProperties: false
    }
  }
}
