/**
 * Predicates → SQL.
 */
import { operators, type Operator } from '../../schemas/operator.ts'
import type { Condition, Operand, Predicate } from '../plan/nodes.ts'
import { comparableValue } from './column.ts'
import { empty, fill, identifier, join, sql, type Fragment } from './fragment.ts'
import {
  array,
  keyword,
  searchArguments,
  searchDocument,
  single,
  singleText,
  type Meeting
} from './operand.ts'
import type { CteBuilder } from './cte-builder.ts'

/**
 * ` where …` over the columns of `t`; empty without conditions. `constants`: for the predicate of
 * a partial index, where neither parameters nor the name of the table are allowed. `also`:
 * further conditions.
 */
export function whereClause (
  where: readonly Predicate[],
  scope: CteBuilder,
  { constants = false, also = [] }: {
    readonly constants?: boolean,
    readonly also?: readonly Fragment[]
  } = {}
): Fragment {
  const conditions = [...where.map(predicate => compare(predicate, { scope, constants })), ...also]
  return conditions.length === 0 ? empty : sql` where ${join(conditions, sql` and `)}`
}

type Context = Omit<Meeting, 'path'>

function together (
  predicates: readonly Predicate[],
  write: (predicate: Predicate) => Fragment,
  operator: Fragment = sql` and `
): Fragment {
  return join(predicates.map(write), operator)
}

function compare (predicate: Predicate, context: Context): Fragment {
  const write = (inner: Predicate): Fragment => compare(inner, context)
  switch (predicate.kind) {
    case 'and':
      return sql`(${together(predicate.of, write)})`
    case 'or':
      return sql`(${together(predicate.of, write, sql` or `)})`
    case 'not':
      return sql`not (${write(predicate.of)})`
    case 'condition':
      return condition(predicate, context)
  }
}

function condition (
  { column, operator: name, operand }: Condition,
  { scope, constants = false }: Context
): Fragment {
  const operator: Operator = operators[name]
  const meeting = { scope, path: column, constants }
  const left = constants ? identifier(column.column) : comparableValue(column, sql`t`)
  const document = operand.kind === 'search' ? searchDocument(column, operand.config) : empty
  return fill(operator.sql, { column: left, operand: right(operand, operator, meeting), document })
}

function right (operand: Operand, { takes }: Operator, meeting: Meeting): Fragment {
  switch (operand.kind) {
    case 'list': {
      if (takes !== 'keys') return array(operand, meeting)
      return sql`(${
        array(operand, {
          ...meeting,
          path: { ...meeting.path, gives: 'text' }
        })
      })::text[]`
    }
    case 'quantified': {
      const list = array(operand.list, meeting)
      return operand.quantifier === 'any' ? sql`any (${list})` : sql`all (${list})`
    }
    case 'bounds':
      return sql`${single(operand.low, meeting)} and ${single(operand.high, meeting)}`
    case 'keyword':
      return keyword(operand.word)
    case 'search':
      return searchArguments(operand, meeting.scope)
    default:
      return takes === 'key' ? singleText(operand, meeting.scope) : single(operand, meeting)
  }
}
