/**
 * Describes the response of a named batch: the result of each operation, with the members of its
 * rows that its plan names.
 */
import type { NamedBatch } from '../named/named-batch.ts'
import type { NestedReads, PlanNode } from '../plan/nodes.ts'
import { isAllColumns, returnsOneRow } from '../plan/output.ts'
import type { JsonSchema } from './json-schema.ts'

/** A row whose columns are not known: a component of the response of all batches. */
const anyRow = { $ref: '#/components/schemas/AnswerRow' }

export function describeResults ({ planner }: Pick<NamedBatch, 'planner'>): JsonSchema {
  const data = describeMembers(
    Object.fromEntries(planner.planOfFile.operations.map(node => [node.id, describeResult(node)]))
  )
  const description =
    'results by operation id; with `Prefer: return=minimal` the number of rows of each'
  return describeMembers({ error: { type: 'null' }, data: { description, ...data } })
}

function describeResult (node: PlanNode): JsonSchema {
  const rows = {
    type: 'array',
    // Only the database knows what a function returns.
    items: node.kind === 'call' ? anyRow : describeRow(node),
    ...returnsOneRow(node) && { minItems: 1, maxItems: 1 }
  }
  const result = node.answersCount === true ? { type: 'integer', minimum: 0 } : rows
  return node.when.length > 0 ? orNull(result) : result
}

/** A row of an operation or of a nested read. */
interface ReturnedRow extends Pick<PlanNode, 'output'> {
  readonly nested?: NestedReads | undefined
}

/** The values of columns are described as any JSON. */
function describeRow ({ output, nested }: ReturnedRow): JsonSchema {
  const named = output?.filter(column => !isAllColumns(column)) ?? []
  const isWhole = named.length !== output?.length
  const members = {
    ...Object.fromEntries(named.map(({ name }) => [name, {}])),
    ...Object.fromEntries(nested?.reads.map(read => {
      const inner = describeRow(read)
      return [read.name, read.one ? orNull(inner) : { type: 'array', items: inner }]
    }) ?? [])
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
