/**
 * Predicates → SQL.
 */
import { operators, type Operator } from '../../schemas/filter.ts'
import type { Condition, Operand, Predicate } from '../plan/nodes.ts'
import { comparableValue } from './column.ts'
import { empty, fill, identifier, join, sql, type Fragment } from './fragment.ts'
import { arrays, keyword, searchArguments, searchDocument, single, singleText, type Meeting } from './operand.ts'
import type { Scope } from './scope.ts'

/**
 * ` where …` over the columns of `t`; empty without conditions. `constants`: for the predicate of a partial index, where neither parameters nor
 * the name of the table are allowed.
 */
export function whereClause (where: readonly Predicate[], scope: Scope, constants = false): Fragment {
  return where.length === 0 ? empty : sql` where ${together(where, predicate => compare(predicate, { scope, constants }))}`
}

type Context = Omit<Meeting, 'path'>

function together (predicates: readonly Predicate[], write: (predicate: Predicate) => Fragment, operator: Fragment = sql` and `): Fragment {
  return join(predicates.map(write), operator)
}

function compare (predicate: Predicate, context: Context): Fragment {
  const write = (inner: Predicate): Fragment => compare(inner, context)
  switch (predicate.kind) {
    case 'and': return sql`(${together(predicate.of, write)})`
    case 'or': return sql`(${together(predicate.of, write, sql` or `)})`
    case 'not': return sql`not (${write(predicate.of)})`
    case 'condition': return condition(predicate, context)
  }
}

function condition ({ column, operator: name, operand }: Condition, { scope, constants = false }: Context): Fragment {
  const operator: Operator = operators[name]
  const meeting = { scope, path: column, constants }
  const left = constants ? identifier(column.column) : comparableValue(column, sql`t`)
  const document = operand.kind === 'search' ? searchDocument(column, scope, operand.config) : empty
  const parts = right(operand, operator, meeting).map(operand => fill(operator.sql, { column: left, operand, document }))
  if (parts.length === 1) return parts[0] as Fragment
  // Literals of a list and its references, each with the operator of its own.
  const every = operand.kind === 'quantified' ? operand.quantifier === 'all' : operator.every === true
  return sql`(${join(parts, every ? sql` and ` : sql` or `)})`
}

function right (operand: Operand, { takes }: Operator, meeting: Meeting): readonly Fragment[] {
  switch (operand.kind) {
    case 'list': return takes === 'keys' ? arrays(operand, { ...meeting, path: { ...meeting.path, gives: 'text' } }).map(array => sql`(${array})::text[]`) : arrays(operand, meeting)
    case 'quantified': return arrays(operand.list, meeting).map(array => operand.quantifier === 'any' ? sql`any (${array})` : sql`all (${array})`)
    case 'bounds': return [sql`${single(operand.low, meeting)} and ${single(operand.high, meeting)}`]
    case 'keyword': return [keyword(operand.word)]
    case 'search': return [searchArguments(operand, meeting.scope)]
    default: return [takes === 'key' ? singleText(operand, meeting.scope) : single(operand, meeting)]
  }
}
