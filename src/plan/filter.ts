/**
 * `where`: JSON → conditions. Whether column and operand fit each other is PostgreSQL's business.
 */
import { operators, type OperatorName } from '../../schemas/filter.ts'
import { isNumber, isObject, type Json } from '../json/parse.ts'
import { checkColumn } from './name.ts'
import type { FaultCode } from '../../schemas/error.ts'
import type { Condition, Findings, Literal, Path, PlanLimits, Reference } from './nodes.ts'

/**
 * Every condition of `where`, in the order of the request. Faults go to `findings`; what is faulty is left out. A column without
 * an operator is the fault `empty`: where rows are changed it is as dangerous as an empty filter.
 */
export function planFilter (where: Json, empty: FaultCode, findings: Findings, limits: PlanLimits): readonly Condition[] {
  if (!isObject(where)) {
    findings.fault('member_invalid', ['where'], 'where must be an object of column → { operator: operand }.')
    return []
  }
  const conditions: Condition[] = []
  for (const [column, tests] of Object.entries(where)) {
    if (!checkColumn(column, ['where', column], findings)) continue
    if (!isObject(tests) || Object.keys(tests).length === 0) {
      findings.fault(isObject(tests) ? empty : 'operand_invalid', ['where', column], 'A column takes at least one operator, for example {"eq": 1}.')
      continue
    }
    for (const [operator, operand] of Object.entries(tests)) {
      const condition = planCondition(column, operator, operand, findings)
      if (condition !== undefined) conditions.push(condition)
    }
  }
  if (conditions.length > limits.maxConditions) findings.fault('member_invalid', ['where'], `where holds ${conditions.length} conditions, at most ${limits.maxConditions} are allowed.`)
  return conditions
}

function planCondition (column: string, operator: string, operand: Json, findings: Findings): Condition | undefined {
  const path = ['where', column, operator]
  if (!isOperator(operator)) return findings.fault('operator_unknown', path, `There is no operator "${operator}".`)
  const planned = planOperand(operand, path, findings)
  return planned === undefined ? undefined : { kind: 'condition', column, operator, operand: planned }
}

function planOperand (operand: Json, path: Path, findings: Findings): Literal | Reference | undefined {
  if (typeof operand === 'string') {
    const meaning = findings.string(operand, path)
    return typeof meaning === 'string' ? { kind: 'literal', text: meaning } : meaning
  }
  if (typeof operand === 'boolean' || isNumber(operand)) return { kind: 'literal', text: JSON.stringify(operand) }
  return findings.fault('operand_invalid', path, operand === null ? 'null equals nothing in SQL; no comparison with it is ever true.' : 'The operand must be a string, a number or a boolean.')
}

function isOperator (name: string): name is OperatorName {
  return Object.hasOwn(operators, name)
}
