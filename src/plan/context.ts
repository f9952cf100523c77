/**
 * The context in which one operation is planned: limits, references and the issues of the batch.
 */
import type { IssueCode, Issue } from '../../schemas/error.ts'
import { maxFirstReferences } from '../../schemas/operand.ts'
import { Failure, failure } from '../errors/catalogue.ts'
import type {
  Parameter,
  ParsedString,
  Reference,
  ReferenceUse,
  Requirement,
  RowsDocument,
  TableName
} from './nodes.ts'
import { describeUnknownOperation, parseString, type KnownOperations } from './reference.ts'
import { units, type WorkBudget } from './work.ts'

/** Path from the operation to a node of it; positions in arrays are numbers. */
export type Path = ReadonlyArray<string | number>

/** Limits that planning enforces, from the configuration. */
export interface PlanLimits {
  readonly schemas: readonly string[]
  readonly maxRows: number
  readonly maxConditions: number
  readonly maxWork: number
}

/** See UsedRows. */
export interface CollectedRows {
  readonly inserted: Set<number>
  readonly documents: RowsDocument[]
}

export interface PlanContext {
  readonly limits: PlanLimits
  /** The tables that the batch names so far, by name. */
  readonly tables: Map<string, TableName>
  /** The rows of parameters that the batch uses so far. */
  readonly usedRows: CollectedRows
  /** The parameters of a named batch, by name; undefined: the batch has no name. */
  readonly parameters?: ReadonlyMap<string, Parameter> | undefined
  /** Counts work of this operation; see work.ts. Throws `too_much_work`. */
  spend(units: number): void
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
   * Returns the reference for the references in `$first`, and records their use. Adds an issue for
   * each that does not name a column of one row.
   */
  resolveFirst(references: readonly string[], path: Path): Reference
  /**
   * Returns the index of an earlier operation whose number of rows is read. Returns undefined after
   * an issue.
   */
  countRows(id: string, path: Path): number | undefined
}

/**
 * Maximum number of different `$first` in an operation. Each is a condition and, for each of its
 * references, a few function calls of the statement.
 */
export const maxFirsts = 100

/** Stands for a `$first` that is refused. */
const INVALID: Reference = { kind: 'reference', source: 0, row: 0, column: '' }

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
  readonly usedRows: CollectedRows
  readonly work: WorkBudget
}

/** The operation that is planned. */
export interface PlannedOperation {
  readonly op: string
  readonly index: number
  /** Whether it can be skipped. It then checks itself that the rows exist that it reads. */
  readonly conditional: boolean
}

/**
 * Returns why a parameter cannot be used, or undefined. `minItems`: how many elements a list must
 * have, so that it does not match every row.
 */
export function findParameterProblem (
  parameter: Parameter,
  minItems: number
): string | undefined {
  if (parameter.isOptional) {
    return 'can be missing: add it to "required" of "params", or give it a "default".'
  }
  return parameter.minItems < minItems
    ? 'can be an empty list, with which the condition matches every row: give it "minItems": 1.'
    : undefined
}

/** Creates the context of an operation. */
export function createPlanContext (
  state: BatchState,
  { op, index, conditional }: PlannedOperation
): PlanContext {
  const { limits, issues, referenceUses, requirements, counted, work, ...known } = state
  const { tables, parameters, usedRows } = known
  const spend = (units: number): void => work.spend(units, { op, index })
  const addIssue: PlanContext['addIssue'] = (code, path, message) =>
    issues.add({ op, index, code, path: [...path], message }) as undefined
  /** References that were parsed, by their text: a batch often repeats them. */
  const references = new Map<string, ParsedString>()
  /** References whose use is recorded. */
  const resolved = new Set<Reference>()
  const parse: PlanContext['parseString'] = (text, path) => {
    if (!text.startsWith('$')) return { kind: 'data', text }
    const repeated = references.get(text)
    if (repeated !== undefined) return repeated
    const parsed = parseString(text, known)
    if (parsed.kind === 'reference') {
      spend(units.newReference)
      references.set(text, parsed)
    }
    if (parsed.kind === 'unknown') addIssue('reference_unknown', path, parsed.message)
    if (parsed.kind === 'malformed') addIssue('reference_malformed', path, parsed.message)
    return parsed
  }
  const addUse = (use: ReferenceUse): void => {
    const { source } = use.reference
    const uses = referenceUses.get(source)
    if (uses === undefined) referenceUses.set(source, [use])
    else uses.push(use)
  }
  const addRequirement = (key: string, { anyOf }: Requirement): void => {
    const known = requirements.get(index) ?? new Map<string, Requirement>()
    requirements.set(index, known.set(key, { anyOf }))
    for (const { reference: { source } } of anyOf) counted.add(source)
  }
  /** Requires the most rows that any reference of the operation needs. */
  const requireRows = (use: ReferenceUse): void => {
    const key = String(use.reference.source)
    const known = requirements.get(index)?.get(key)?.anyOf[0]?.rows ?? 0
    if (use.rows > known) addRequirement(key, { anyOf: [use] })
  }
  const firsts = new Map<string, Reference>()
  return {
    limits,
    tables,
    parameters,
    usedRows,
    spend,
    addIssue,
    parseString: parse,
    resolveString (text, path, minRows = 0) {
      const parsed = parse(text, path)
      if (parsed.kind !== 'reference') return parsed.kind === 'data' ? parsed.text : text
      spend(units.reference)
      if (parsed.parameter !== undefined) {
        const problem = findParameterProblem(parsed.parameter, minRows)
        if (problem !== undefined) addIssue('reference_malformed', path, `"${text}" ${problem}`)
        return parsed
      }
      // Each use of a list counts: it is a list of its own.
      if (parsed.row !== '*' && resolved.has(parsed)) return parsed
      resolved.add(parsed)
      const rows = parsed.row === '*' ? minRows : parsed.row + 1
      const use = { reference: parsed, reader: index, rows, checked: !conditional }
      if (conditional) requireRows(use)
      addUse(use)
      return parsed
    },
    resolveFirst (texts, path) {
      spend(units.choice * texts.length)
      const key = JSON.stringify(texts)
      const known = firsts.get(key)
      if (known !== undefined) return known
      if (texts.length > maxFirstReferences) {
        const message = `"$first" takes at most ${maxFirstReferences} references.`
        addIssue('member_invalid', path, message)
      }
      if (firsts.size === maxFirsts) {
        const message = `An operation can have at most ${maxFirsts} different lists of "$first".`
        addIssue('member_invalid', path, message)
      }
      const anyOf = texts.flatMap((text, i): readonly ReferenceUse[] => {
        const reference = parse(text, [...path, i])
        if (reference.kind !== 'reference') return []
        if (reference.parameter !== undefined) {
          const message = `"${text}" always exists; use it without "$first".`
          addIssue('reference_malformed', [...path, i], message)
          return []
        }
        if (reference.row === '*' || reference.column === undefined) {
          const message = `"${text}" must have the form $op.row.column or $op.column.`
          addIssue('reference_malformed', [...path, i], message)
          return []
        }
        return [{ reference, reader: index, rows: reference.row + 1, checked: false }]
      })
      anyOf.forEach(addUse)
      addRequirement(key, { anyOf })
      const [first = INVALID, ...otherwise] = anyOf.map(({ reference }) => reference)
      const chosen = { ...first, otherwise }
      firsts.set(key, chosen)
      return chosen
    },
    countRows (id, path) {
      spend(units.choice)
      const source = known.earlier.get(id)
      if (source === undefined) {
        return addIssue('reference_unknown', path, describeUnknownOperation(id, known))
      }
      counted.add(source)
      return source
    }
  }
}

/**
 * Maximum length of all listed issues as JSON. Each issue repeats the id and a path, so a body of
 * 1 MiB could otherwise cause a response of 500 MiB.
 */
export const maxIssuesLength = 262_144

export interface Issues {
  /** Throws what throwIfAny throws if the issue does not fit. The rest is not checked then. */
  add(issue: Issue): void
  /**
   * Throws `validation_failed` if there are issues. The status is 422, or 403 if every issue is
   * `schema_forbidden`.
   */
  throwIfAny(): void
}

export function collectIssues (): Issues {
  const listed: Issue[] = []
  let count = 0
  let length = 0
  let forbidden = true
  return {
    add (sent) {
      const issue = { ...sent, message: shorten(sent.message) }
      count++
      forbidden &&= issue.code === 'schema_forbidden'
      length += JSON.stringify(issue).length
      if (length <= maxIssuesLength || count === 1) listed.push(issue)
      else this.throwIfAny()
    },
    throwIfAny () {
      if (count === 0) return
      const message = count === 1 ? listed[0]?.message : describeCount(count, listed.length)
      const invalid = failure('validation_failed', message, { errors: listed })
      throw forbidden ? withStatus(invalid, 403) : invalid
    }
  }
}

/** A message quotes names of any length. */
const MAX_MESSAGE_LENGTH = 2000

/** Leaves out the middle of a long message. */
export function shorten (message: string): string {
  const half = MAX_MESSAGE_LENGTH / 2
  return message.length > MAX_MESSAGE_LENGTH
    ? `${message.slice(0, half)}…${message.slice(-half)}`
    : message
}

function describeCount (count: number, listed: number): string {
  return listed < count
    ? `The batch has more than ${listed} issues; these are listed.`
    : `The batch has ${count} issues.`
}

function withStatus ({ type, code, message, details }: Failure, status: number): Failure {
  return new Failure({ type, code, status, message, details })
}
