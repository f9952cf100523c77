/**
 * Describes the response of a named batch: the result of each operation, with the members of its
 * rows that its plan names.
 */
import type { NamedBatch } from '../named/named-batch.ts'
import { listResults, type Result, type ResultRow } from '../named/results.ts'
import type { JsonSchema } from './json-schema.ts'

/** A row whose columns are not known: a component of the response of all batches. */
const anyRow = { $ref: '#/components/schemas/AnswerRow' }

export function describeResults ({ planner }: Pick<NamedBatch, 'planner'>): JsonSchema {
  const data = describeMembers(
    Object.fromEntries(
      listResults(planner.planOfFile).map(result => [result.id, describeResult(result)])
    )
  )
  const description =
    'results by operation id; with `Prefer: return=minimal` the number of rows of each'
  return describeMembers({ error: { type: 'null' }, data: { description, ...data } })
}

function describeResult ({ isCount, canBeSkipped, isOneRow, row }: Result): JsonSchema {
  const rows = {
    type: 'array',
    items: row === undefined ? anyRow : describeRow(row),
    ...isOneRow && { minItems: 1, maxItems: 1 }
  }
  const result = isCount ? { type: 'integer', minimum: 0 } : rows
  return canBeSkipped ? orNull(result) : result
}

/** The values of columns are described as any JSON. */
function describeRow ({ columns, nested }: ResultRow): JsonSchema {
  const named = columns.filter(column => column !== '*')
  const isWhole = named.length < columns.length
  const members = {
    ...Object.fromEntries(named.map(({ name }) => [name, {}])),
    ...Object.fromEntries(nested.map(({ name, isOne, row }) => {
      const inner = describeRow(row)
      return [name, isOne ? orNull(inner) : { type: 'array', items: inner }]
    }))
  }
  if (!isWhole) return describeMembers(members)
  return Object.keys(members).length === 0
    ? anyRow
    : { ...describeMembers(members), additionalProperties: {} }
}

function describeMembers (properties: Readonly<Record<string, JsonSchema>>): JsonSchema {
  const required = Object.keys(properties)
  return { type: 'object', properties, ...required.length > 0 && { required } }
}

function orNull (schema: JsonSchema): JsonSchema {
  return { anyOf: [schema, { type: 'null' }] }
}
