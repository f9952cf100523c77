/**
 * Names of tables and functions, and how the rows of two tables belong together.
 */
import { Type } from '@sinclair/typebox'

export const TableText = Type.String({
  description:
    '`<table>` (in the first schema of `DB_SCHEMAS`) or `<schema>.<table>`; may be a view'
})

export const FunctionText = Type.String({
  description: '`<function>` (in the first schema of `DB_SCHEMAS`) or `<schema>.<function>`'
})

/** Pairs of columns that must be equal. */
export const On = Type.Record(Type.String(), Type.String({ name: 'column' }), {
  keys: 'column',
  minProperties: 1,
  description: 'column of the other table → column of this one, all equal',
  expected: 'an object of columns, for example {"order_id": "id"}'
})
