/**
 * Plans rows of a parameter of a named batch, and `"values": "$params.items"` of an insert.
 */
import { paramsId } from '../../schemas/batch.ts'
import { maxColumns } from '../../schemas/operation.ts'
import type { Json } from '../json/parse.ts'
import { findParameterProblem, type Place, type PlanContext } from './context.ts'
import { findColumnProblem } from './name.ts'
import type { Parameter, RowsParameter } from './parameter.ts'
import { findBracketed } from './reference.ts'

const PREFIX = `$${paramsId}.`

/** Whether a string refers to a parameter. */
export function namesParameter (text: string, { batch }: PlanContext): boolean {
  return batch.parameters !== undefined && text.startsWith(PREFIX)
}

/**
 * Whether a value is a reference to a parameter in brackets: `$params[items]`. Adds an issue if it
 * is.
 */
export function isBracketedParameter (value: Json, { context, path }: Place): boolean {
  return typeof value === 'string' && findBracketed(value) === paramsId &&
    context.parseString(value, path).kind === 'malformed'
}

/** The name of the parameter to which a string refers. */
export function parameterName (text: string): string {
  return text.slice(PREFIX.length)
}

/** Finds the parameter of `"values": "$params.items"`. Returns undefined after an issue. */
export function findInsertedParameter (
  name: string,
  context: PlanContext
): RowsParameter | undefined {
  const place = { context, path: ['values'] }
  const parameter = findRowsParameter(name, place)
  if (parameter === undefined || !checkColumns(name, parameter, place)) return undefined
  context.batch.usedRows.inserted.add(parameter.position)
  return parameter
}

/** Finds a parameter that is a list of objects. Returns undefined after an issue. */
export function findRowsParameter (
  name: string,
  { context, path }: Place
): RowsParameter | undefined {
  const { parameters = new Map<string, Parameter>() } = context.batch
  const parameter = parameters.get(name)
  if (parameter === undefined) {
    const bare = name.startsWith(PREFIX) ? parameterName(name) : name
    const message = parameters.has(bare)
      ? `"param" takes the name of a parameter: "${bare}".`
      : `There is no parameter "${name}". ` +
        `Parameters: ${[...parameters.keys()].join(', ') || 'none'}.`
    return context.addIssue('reference_unknown', path, message)
  }
  const problem = parameter.rows === undefined
    ? 'must be a list of objects: {"type": "array", "items": {"type": "object", …}}.'
    : findParameterProblem(parameter, 0)
  if (problem === undefined) return parameter as RowsParameter
  return context.addIssue('reference_malformed', path, `"${PREFIX}${name}" ${problem}`)
}

/**
 * Whether the schema refuses undeclared columns, and its columns are valid. Otherwise adds issues.
 */
function checkColumns (
  name: string,
  { rows: { declared, isClosed } }: RowsParameter,
  { context, path }: Place
): boolean {
  const problems = [
    ...isClosed
      ? []
      : [
          `"items" of "${PREFIX}${name}" must have "additionalProperties": false, and no ` +
          '"patternProperties": otherwise a client could write every column.'
        ],
    ...[...declared].flatMap(column => findColumnProblem(column) ?? []),
    ...declared.size > maxColumns
      ? [`"${PREFIX}${name}" has ${declared.size} columns; at most ${maxColumns} are allowed.`]
      : []
  ]
  for (const problem of problems) context.addIssue('reference_malformed', path, problem)
  return problems.length === 0
}
