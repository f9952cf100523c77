/**
 * The grammar of one operation: its members by kind. The planner takes kinds and names of members from here and reads their contents
 * itself, for every fault has a code and a path of its own.
 */
import { Type, type Static, type TObject } from '@sinclair/typebox'
import { Filter } from './filter.ts'

/** Deepest nesting of arrays and objects in a body, the batch's own array counted. */
export const maxDepth = 100

/** PostgreSQL's NAMEDATALEN - 1: a longer identifier would be cut silently, and could then name something else. */
export const maxIdentifierBytes = 63

/** PostgreSQL's MaxHeapAttributeNumber: no table has more columns. */
export const maxColumns = 1600

export const operationId = /^[A-Za-z_][A-Za-z0-9_]*$/

const id = Type.String({ pattern: operationId.source, description: 'unique in the request; key of the result and target of references' })
const table = Type.String({ description: 'table or view, `<table>` or `<schema>.<table>`; the schema must be one of DB_SCHEMAS' })
const row = Type.Record(Type.String(), Type.Unknown(), { description: 'column → value' })
const all = Type.Optional(Type.Literal(true, { description: 'instead of `where`: every row of the table is meant' }))

export const Insert = Type.Object({
  id,
  op: Type.Literal('insert'),
  table,
  values: Type.Array(row, { minItems: 1, description: 'rows to insert; a missing column takes its default, null is NULL' })
}, { description: 'Adds rows; answers them as they are in the table.' })

export const Update = Type.Object({
  id,
  op: Type.Literal('update'),
  table,
  set: Type.Record(Type.String(), Type.Unknown(), { minProperties: 1, description: 'column → new value' }),
  where: Type.Optional(Filter),
  all
}, { description: 'Changes the rows that meet `where`; answers them as they are afterwards.' })

export const Delete = Type.Object({
  id,
  op: Type.Literal('delete'),
  table,
  where: Type.Optional(Filter),
  all
}, { description: 'Removes the rows that meet `where`; answers them as they were.' })

export const Select = Type.Object({
  id,
  op: Type.Literal('select'),
  table,
  where: Type.Optional(Filter)
}, { description: 'Answers the rows that meet `where`, all of them without one.' })

/** The schema of each kind of operation. */
export const operations = { insert: Insert, update: Update, delete: Delete, select: Select } as const satisfies Record<string, TObject>

export type OperationKind = keyof typeof operations
export type Operation = Static<typeof Insert> | Static<typeof Update> | Static<typeof Delete> | Static<typeof Select>

/** Members that some kind of operation defines: where a kind does not use one of them, it is ignored; any other is refused. */
export const knownMembers: ReadonlySet<string> = new Set(Object.values(operations).flatMap(schema => Object.keys(schema.properties)))
