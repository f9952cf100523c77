/**
 * The context in which one operation is planned: limits, issues and references.
 */
import type { IssueCode } from '../../schemas/error.ts'
import type { Issues } from './issues.ts'
import type { ParsedString, Reference, ReferenceUse, Requirement, TableName } from './nodes.ts'
import { describeUnknownOperation, parseString, type KnownOperations } from './reference.ts'

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
  /**
   * Returns the index of an earlier operation whose number of rows is read. Returns undefined after
   * an issue.
   */
  countRows(id: string, path: Path): number | undefined
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
  readonly requirements: Map<number, Map<string, Requirement>>
  readonly counted: Set<number>
  readonly tables: Map<string, TableName>
}

/** The operation that is planned. */
export interface PlannedOperation {
  readonly op: string
  readonly index: number
  /** Whether it can be skipped. It then checks itself that the rows exist that it reads. */
  readonly conditional: boolean
}

/** Creates the context of an operation. */
export function createPlanContext (
  { limits, issues, referenceUses, requirements, counted, tables, ...known }: BatchState,
  { op, index, conditional }: PlannedOperation
): PlanContext {
  const addIssue: PlanContext['addIssue'] = (code, path, message) =>
    issues.add({ op, index, code, path: [...path], message }) as undefined
  const parse: PlanContext['parseString'] = (text, path) => {
    const parsed = parseString(text, known)
    if (parsed.kind === 'unknown') addIssue('reference_unknown', path, parsed.message)
    if (parsed.kind === 'malformed') addIssue('reference_malformed', path, parsed.message)
    return parsed
  }
  const addRequirement = (requirement: Requirement): void => {
    const { reference: { source }, rows } = requirement
    const known = requirements.get(index) ?? new Map<string, Requirement>()
    if ((known.get(String(source))?.rows ?? 0) >= rows) return
    requirements.set(index, known.set(String(source), requirement))
    counted.add(source)
  }
  return {
    limits,
    tables,
    addIssue,
    parseString: parse,
    resolveString (text, path, minRows = 0) {
      const parsed = parse(text, path)
      if (parsed.kind !== 'reference') return parsed.kind === 'data' ? parsed.text : text
      const rows = parsed.row === '*' ? minRows : parsed.row + 1
      const use = { reference: parsed, reader: index, rows, checked: !conditional }
      if (conditional) addRequirement(use)
      const uses = referenceUses.get(parsed.source)
      if (uses === undefined) referenceUses.set(parsed.source, [use])
      else uses.push(use)
      return parsed
    },
    countRows (id, path) {
      const source = known.earlier.get(id)
      if (source === undefined) {
        return addIssue('reference_unknown', path, describeUnknownOperation(id, known))
      }
      counted.add(source)
      return source
    }
  }
}
