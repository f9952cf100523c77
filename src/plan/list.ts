/**
 * Plans lists: arrays of literals and references, and references that are a list themselves
 * (`$op.*.column`, or a parameter). How many rows a list of an earlier operation must have depends
 * on where it is used: an empty one must not make a condition match every row.
 */
import type { Json } from '../json/parse.ts'
import type { Place } from './context.ts'
import { planDocument, planLiteral, planScalar } from './document.ts'
import type { List, Literal, Reference } from './nodes.ts'

/** Where a list is an operand. */
export interface ListPlace extends Place {
  /**
   * Whether the place is inside an odd number of `not`. There, a condition that matches no row
   * makes the filter match every row.
   */
  readonly negated: boolean
  /** The minimum number of rows of a list of an earlier operation. */
  readonly minRows: number
}

/**
 * Returns how many rows a list needs so that the condition does not match every row.
 * `emptyMatches`: whether the condition itself matches every row if its list is empty.
 */
export function countRequiredRows (emptyMatches: boolean, negated: boolean): number {
  return emptyMatches === negated ? 0 : 1
}

/**
 * Plans a list that may be empty. An empty list matches no row; inside `not`, where it would match
 * every row, it is an issue.
 */
export function planPossiblyEmptyList (operand: Json, place: ListPlace): List {
  if (place.negated && Array.isArray(operand) && operand.length === 0) {
    place.context.addIssue(
      'operand_invalid',
      place.path,
      `"${place.path.at(-1)}" must not be an empty array inside "not" or "not_exists": the ` +
        'condition would match every row.'
    )
  }
  return planList(operand, place)
}

export function planList (operand: Json, place: ListPlace): List {
  if (typeof operand === 'string') {
    return { kind: 'list', literals: [], references: planDocument(operand, place) }
  }
  const { context, path } = place
  const literals: Literal[] = []
  const references: Reference[] = []
  for (const [i, member] of (operand as readonly Json[]).entries()) {
    const planned = planLiteral(member) ?? planScalar(member, { context, path: [...path, i] })
    if (planned.kind === 'literal') literals.push(planned)
    else references.push(planned)
  }
  if (references.length === 0) return { kind: 'list', literals, references: undefined }
  const pieces = ['[', ...references.slice(1).map(() => ','), ']']
  return {
    kind: 'list',
    literals,
    references: { kind: 'document', pieces, references, shape: 'array' }
  }
}
