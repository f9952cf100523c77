/**
 * The grammar of `where`: column → { operator: operand, … }, everything AND-ed. One row of `operators` is all that an operator of one scalar
 * operand needs.
 */
import { Type, type Static } from '@sinclair/typebox'

/** How an operator is written in SQL and what it means. `sql` is PostgreSQL's own operator. */
export interface Operator { readonly sql: string, readonly meaning: string }

/** Operators of one scalar operand, which takes the type of its column. */
export const operators = {
  eq: { sql: '=', meaning: 'equal' },
  neq: { sql: '<>', meaning: 'not equal' },
  gt: { sql: '>', meaning: 'greater' },
  gte: { sql: '>=', meaning: 'greater or equal' },
  lt: { sql: '<', meaning: 'less' },
  lte: { sql: '<=', meaning: 'less or equal' },
  like: { sql: 'like', meaning: 'SQL pattern, case matters' },
  ilike: { sql: 'ilike', meaning: 'SQL pattern, case ignored' },
  match: { sql: '~', meaning: 'POSIX regular expression, case matters' },
  imatch: { sql: '~*', meaning: 'POSIX regular expression, case ignored' }
} as const satisfies Record<string, Operator>

export type OperatorName = keyof typeof operators

export const Operand = Type.Union([Type.String(), Type.Number(), Type.Boolean()], { description: 'a scalar, or a reference to a value of an earlier operation' })

export const OperatorMap = Type.Partial(Type.Record(
  Type.Union(Object.keys(operators).map(name => Type.Literal(name))), Operand, { minProperties: 1 }
))

export const Filter = Type.Record(Type.String(), OperatorMap, { description: 'column → { operator: operand, … }; everything is AND-ed' })
export type Filter = Static<typeof Filter>
