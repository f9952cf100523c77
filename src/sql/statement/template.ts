/**
 * Statements of a batch whose values are placeholders. They are compiled once, and filled with the
 * values of each batch.
 */
import {
  fillPlaceholder,
  hasPlaceholder,
  readPlaceholder,
  type Placeholder,
  type Values
} from '../../plan/shape.ts'

/** A statement with a text and parameters. */
interface WithParameters {
  readonly text: string
  readonly parameters: ReadonlyArray<string | null>
}

/** A statement whose parameters may be placeholders. */
export interface Template<Statement extends WithParameters> {
  readonly statement: Statement
  readonly parameters: ReadonlyArray<Placeholder | string | null>
}

/**
 * Returns the template of a statement that was compiled with placeholders, or undefined if one of
 * them is not the whole of a parameter.
 */
export function createTemplate<Statement extends WithParameters> (
  statement: Statement
): Template<Statement> | undefined {
  const parameters = statement.parameters.map(parameter =>
    parameter === null ? null : readPlaceholder(parameter) ?? parameter
  )
  const fixed = [statement.text, ...parameters.filter(value => typeof value === 'string')]
  return fixed.some(hasPlaceholder) ? undefined : { statement, parameters }
}

/**
 * Returns the statement with the values at their positions. Returns undefined if the text of an
 * object or an array is needed, for which the statement has no place.
 */
export function fillTemplate<Statement extends WithParameters> (
  { statement, parameters }: Template<Statement>,
  values: Values
): Statement | undefined {
  const filled = parameters.map(parameter =>
    parameter === null || typeof parameter === 'string'
      ? parameter
      : fillPlaceholder(parameter, values)
  )
  return filled.every(text => text !== undefined) ? { ...statement, parameters: filled } : undefined
}
