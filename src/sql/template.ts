/**
 * Statements of a batch whose values are placeholders. They are compiled once, and filled with the
 * values of each batch.
 */
import { hasPlaceholder, readPlaceholder, type Placeholder } from '../plan/shape.ts'

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
 * Returns the statement with the values, which are JSON, at their positions. Returns undefined if a
 * value is undefined: the statement has no place for it.
 */
export function fillTemplate<Statement extends WithParameters> (
  { statement, parameters }: Template<Statement>,
  values: readonly unknown[]
): Statement | undefined {
  const filled = parameters.map(parameter => {
    if (parameter === null || typeof parameter === 'string') return parameter
    const value = values[parameter.position]
    return parameter.json ? JSON.stringify(value) : value as string | null | undefined
  })
  return filled.every(value => value !== undefined)
    ? { ...statement, parameters: filled }
    : undefined
}
