/**
 * The context in which one operation is planned: limits, issues and references.
 */
import type { IssueCode } from '../../schemas/error.ts'
import type { Issues } from './issues.ts'
import type { ParsedString, Reference, ReferenceUse, TableName } from './nodes.ts'
import { parseString, type KnownOperations } from './reference.ts'

/** Path from the operation to a node of it; positions in arrays are numbers. */
export type Path = ReadonlyArray<string | number>

/** Limits that planning enforces, from the configuration. */
export interface PlanLimits {
  readonly schemas: readonly string[]
  readonly maxRows: number
  readonly maxConditions: number
}

export interface PlanContext {
  readonly limits: PlanLimits
  /** The tables that the batch names so far, by name. */
  readonly tables: Map<string, TableName>
  /** Adds an issue of this operation. Returns undefined, so that planners can return the call. */
  addIssue(code: IssueCode, path: Path, message: string): undefined
  /** Parses a string of the request. Adds an issue for an invalid reference. */
  parseString(text: string, path: Path): ParsedString
  /**
   * Returns the unescaped data of a string, or its reference, and records the use of the reference.
   * An invalid reference adds an issue and is returned as data. `minRows` is the minimum number of
   * rows of a list.
   */
  resolveString(text: string, path: Path, minRows?: number): string | Reference
}

/** A node of the operation: its path, and the context that issues at it are added to. */
export interface Place {
  readonly context: PlanContext
  readonly path: Path
}

/** What all operations of a batch share. */
export interface BatchState extends KnownOperations {
  readonly limits: PlanLimits
  readonly issues: Issues
  readonly referenceUses: Map<number, ReferenceUse[]>
  readonly tables: Map<string, TableName>
}

/** Creates the context of operation `index`. */
export function createPlanContext (
  { limits, issues, referenceUses, tables, ...known }: BatchState,
  { op, index }: { readonly op: string, readonly index: number }
): PlanContext {
  const addIssue: PlanContext['addIssue'] = (code, path, message) =>
    issues.add({ op, index, code, path: [...path], message }) as undefined
  const parse: PlanContext['parseString'] = (text, path) => {
    const parsed = parseString(text, known)
    if (parsed.kind === 'unknown') addIssue('reference_unknown', path, parsed.message)
    if (parsed.kind === 'malformed') addIssue('reference_malformed', path, parsed.message)
    return parsed
  }
  return {
    limits,
    tables,
    addIssue,
    parseString: parse,
    resolveString (text, path, minRows = 0) {
      const parsed = parse(text, path)
      if (parsed.kind !== 'reference') return parsed.kind === 'data' ? parsed.text : text
      const use = {
        reference: parsed,
        reader: index,
        rows: parsed.row === '*' ? minRows : parsed.row + 1
      }
      const uses = referenceUses.get(parsed.source)
      if (uses === undefined) referenceUses.set(parsed.source, [use])
      else uses.push(use)
      return parsed
    }
  }
}
