/**
 * Conditions → SQL. A literal operand is a parameter without a type, so PostgreSQL reads it as the column's own type.
 *
 * `t."name"` also finds a function of that name that takes a row of the table, PostgreSQL's computed column, and system columns like
 * `ctid`. Both are let through: a function needs EXECUTE and a row that the role may read in full. A name like `text` does not cast the
 * row: PostgreSQL excludes that from this notation.
 */
import { operators } from '../../schemas/filter.ts'
import type { Condition, TableName } from '../plan/nodes.ts'
import { empty, identifier, join, parameter, sql, type Fragment } from './fragment.ts'
import { referenceOperand } from './reference.ts'

// Operators as source code: the table in schemas/filter.ts is data, and text becomes SQL only here.
const written = new Map(Object.entries(operators).map(([name, operator]) => [name, sql(template(` ${operator.sql} `))]))

/** ` where …` over the columns of `table`, which the statement calls `t`; empty without conditions. */
export function whereClause (where: readonly Condition[], table: TableName): Fragment {
  return where.length === 0 ? empty : sql` where ${join(where.map(condition => comparison(condition, table)), sql` and `)}`
}

function comparison ({ column, operator, operand }: Condition, table: TableName): Fragment {
  const right = operand.kind === 'literal' ? parameter(operand.text) : referenceOperand(operand, table, column)
  return sql`t.${identifier(column)}${written.get(operator) as Fragment}${right}`
}

function template (text: string): TemplateStringsArray {
  return Object.assign([text], { raw: [text] })
}
