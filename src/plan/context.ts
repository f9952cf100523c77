/**
 * The context in which one operation is planned: limits, references and the issues of the batch.
 */
import type { Batch } from '../../schemas/batch.ts'
import type { IssueCode } from '../../schemas/error.ts'
import { maxFirstReferences } from '../../schemas/operand.ts'
import { maxParts } from '../../schemas/operation.ts'
import { failure } from '../errors/catalogue.ts'
import { has, isDeep, type JsonObject } from '../json/parse.ts'
import { Issues } from './check/issues.ts'
import type { Reference, TableName } from './nodes.ts'
import type { NamedPart, ReferenceUse, Requirement, RowsDocument } from './plan.ts'
import {
  describeUnknownOperation,
  isList,
  parseString,
  type KnownOperations,
  type ParsedString
} from './reference.ts'
import type { Parameter } from './parameter.ts'

/** Path from the operation to one of its nodes; positions in arrays are numbers. */
export type Path = ReadonlyArray<string | number>

/** A node of the operation. Issues are added to the context, with the path. */
export interface Place {
  readonly context: PlanContext
  readonly path: Path
}

/** A node whose columns are those of a table; undefined: of a function, or after an issue. */
export interface TablePlace extends Place {
  readonly table: TableName | undefined
}

/** The place of a member or an element. */
export function within<Outer extends Place> (place: Outer, step: string | number): Outer {
  return { ...place, path: [...place.path, step] }
}

/** Limits that planning enforces, from the configuration. */
export interface PlanLimits {
  readonly schemas: readonly string[]
  readonly maxRows: number
  /** Maximum rows of an upload. 0, the default, disables uploads. */
  readonly maxUploadRows?: number
  readonly maxConditions: number
  /** Maximum names, operators and references of a batch; the default is `maxParts`. */
  readonly maxParts?: number
}

/** What a batch is planned with. */
export interface PlanInput {
  /** The parameters of a named batch, by name. */
  readonly parameters?: ReadonlyMap<string, Parameter> | undefined
  /** The paths of the values that the plan does not contain; see BatchShape. */
  readonly values?: readonly Path[] | undefined
}

/** What all operations of a batch share. */
export class BatchContext implements KnownOperations {
  readonly operations: Batch
  readonly ids: ReadonlySet<string>
  readonly limits: PlanLimits
  readonly parameters: ReadonlyMap<string, Parameter> | undefined
  /** Whether the body is nested too deeply somewhere. */
  readonly isDeep: boolean
  readonly issues = new Issues()
  readonly earlier = new Map<string, number>()
  /** The tables that the batch names so far, by name. */
  readonly tables = new Map<string, TableName>()
  /** What its operations name so far. */
  readonly names: NamedPart[] = []
  /** The rows of parameters that the batch uses so far. */
  readonly usedRows = {
    inserted: new Set<number>(), documents: [] as RowsDocument[], values: new Set<number>()
  }

  readonly referenceUses = new Map<number, ReferenceUse[]>()
  readonly requirements = new Map<number, Map<string, Requirement>>()
  readonly counted = new Set<number>()
  /** How many names, operators and references were counted. */
  parts = 0
  /** Positions among the values of the batch, by the paths of the values. */
  readonly positions: ReadonlyMap<string, number>
  /** The positions to which the plan refers. */
  readonly slots = new Set<number>()

  constructor (
    operations: Batch,
    limits: PlanLimits,
    { parameters, values = [] }: PlanInput
  ) {
    this.operations = operations
    this.ids = new Set(operations.map(({ id }) => id))
    this.limits = limits
    this.parameters = parameters
    this.isDeep = isDeep(operations)
    this.positions = new Map(values.map((path, position) => [JSON.stringify(path), position]))
  }
}

/**
 * Maximum number of different `$first` in an operation. Each adds a condition to the statement, and
 * a few function calls for each of its references.
 */
const MAX_FIRSTS = 100

/** Replaces a `$first` whose references are all invalid. */
const INVALID: Reference = { kind: 'reference', source: 0, row: 0, column: '' }

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

export class PlanContext {
  readonly batch: BatchContext
  readonly operation: JsonObject
  readonly id: string
  readonly index: number
  /** The table of the operation; undefined after an issue, and for a function. */
  table: TableName | undefined
  /** References that were parsed, by their text: a batch often repeats them. */
  readonly #parsed = new Map<string, ParsedString>()
  /** References whose use is recorded. */
  readonly #resolved = new Set<Reference>()
  /** The columns that were named, by table. Those that are stored begin with U+0000. */
  readonly #named = new Map<TableName, Set<string | undefined>>()
  /** The references of each `$first`. */
  readonly #firsts = new Map<string, Reference>()

  constructor (batch: BatchContext, index: number) {
    const operation = batch.operations[index] as Batch[number]
    this.batch = batch
    this.operation = operation as unknown as JsonObject
    this.id = operation.id
    this.index = index
  }

  /** Returns the position of the value with this path among the values of the batch. */
  findSlot (path: Path): number | undefined {
    const { batch: { positions, slots }, index } = this
    if (positions.size === 0) return undefined
    const position = positions.get(JSON.stringify([index, ...path]))
    if (position !== undefined) slots.add(position)
    return position
  }

  /**
   * Counts names, operators and references at this path. Throws `too_much_work` if the batch has
   * too many.
   */
  count (parts: number, path: Path): void {
    const { batch, id: op, index } = this
    const { maxParts: max = maxParts } = batch.limits
    batch.parts += parts
    if (batch.parts <= max) return
    throw failure(
      'too_much_work',
      `The batch has more than ${max} names, operators and references, exceeded in operation ` +
        `${index} ("${op}"). Send its operations in several batches, or its conditions as lists ` +
        '("in") and its values as rows.',
      { op, index, path: [...path] }
    )
  }

  /** Records that a table is named. */
  nameTable (table: TableName, path: Path): void {
    this.#addName({ table, column: undefined, isStored: false, path })
  }

  /** Records that a column is named, if its table is known. */
  nameColumn (table: TableName | undefined, column: string, path: Path): void {
    if (table !== undefined) this.#addName({ table, column, isStored: false, path })
  }

  /** Records that a column of the table of the operation is stored. */
  nameStored (column: string, path: Path): void {
    const { table } = this
    if (table !== undefined) this.#addName({ table, column, isStored: true, path })
  }

  /** Records a name that is new. */
  #addName ({ table, column, isStored, path }: Omit<NamedPart, 'index'>): void {
    const { batch: { names }, index } = this
    const named = this.#named.get(table) ?? new Set()
    const key = isStored ? `\0${column}` : column
    if (named.has(key)) return
    this.#named.set(table, named.add(key))
    // A copy takes less memory: it has no room for more elements.
    names.push({ table, column, isStored, index, path: path.slice() })
  }

  /** Adds an issue of this operation. Returns undefined, so that planners can return the call. */
  addIssue (code: IssueCode, path: Path, message: string): undefined {
    this.batch.issues.add({ op: this.id, index: this.index, code, path: [...path], message })
  }

  /** Parses a string of the request. Adds an issue for an invalid reference. */
  parseString (text: string, path: Path): ParsedString {
    if (!text.startsWith('$')) return { kind: 'data', text }
    const repeated = this.#parsed.get(text)
    if (repeated !== undefined) return repeated
    const parsed = parseString(text, this.batch)
    if (parsed.kind === 'reference') this.#parsed.set(text, parsed)
    if ('message' in parsed) this.addIssue(`reference_${parsed.kind}`, path, parsed.message)
    return parsed
  }

  /**
   * Returns the unescaped data of a string, or its reference, and records the use of the reference.
   * An invalid reference adds an issue and is returned as data. `minRows` is the minimum number of
   * rows of a list.
   */
  resolveString (text: string, path: Path, minRows: number): string | Reference {
    const parsed = this.parseString(text, path)
    if (parsed.kind !== 'reference') return parsed.kind === 'data' ? parsed.text : text
    if (parsed.parameter !== undefined) {
      this.batch.usedRows.values.add(parsed.parameter.position)
      const problem = findParameterProblem(parsed.parameter, minRows)
      if (problem !== undefined) this.addIssue('reference_malformed', path, `"${text}" ${problem}`)
      return parsed
    }
    // Each use of a list is recorded, because each counts towards MAX_LISTS.
    if (!isList(parsed) && this.#resolved.has(parsed)) return parsed
    this.#resolved.add(parsed)
    const rows = parsed.row === '*' ? minRows : parsed.row + 1
    // An operation with `when` checks itself whether the rows that it reads exist.
    const checked = !has(this.operation, 'when')
    const use = { reference: parsed, reader: this.index, rows, checked, path: path.slice() }
    if (!checked) this.#requireRows(use)
    this.#addUse(use)
    return parsed
  }

  /**
   * Combines the references in `$first` into one, and records their use. Adds an issue for each
   * that does not name a column of one row.
   */
  resolveFirst (texts: readonly string[], path: Path): Reference {
    const key = JSON.stringify(texts)
    const known = this.#firsts.get(key)
    if (known !== undefined) return known
    if (texts.length > maxFirstReferences) {
      const message = `"$first" takes at most ${maxFirstReferences} references.`
      this.addIssue('member_invalid', path, message)
    }
    if (this.#firsts.size === MAX_FIRSTS) {
      const message = `An operation can have at most ${MAX_FIRSTS} different lists of "$first".`
      this.addIssue('member_invalid', path, message)
    }
    const anyOf = texts.flatMap((text, i): readonly ReferenceUse[] => {
      const reference = this.parseString(text, [...path, i])
      if (reference.kind !== 'reference') return []
      const { parameter, row, column } = reference
      if (parameter === undefined && row !== '*' && column !== undefined) {
        const { index: reader } = this
        return [{ reference, reader, rows: row + 1, checked: false, path: path.slice() }]
      }
      const message = parameter === undefined
        ? 'must have the form $op.row.column or $op.column.'
        : 'always exists; use it without "$first".'
      this.addIssue('reference_malformed', [...path, i], `"${text}" ${message}`)
      return []
    })
    for (const use of anyOf) this.#addUse(use)
    this.#addRequirement(key, anyOf)
    const [first = INVALID, ...otherwise] = anyOf.map(({ reference }) => reference)
    const chosen = { ...first, otherwise }
    this.#firsts.set(key, chosen)
    return chosen
  }

  /**
   * Records that the number of rows of an earlier operation is read. Returns its index, or
   * undefined after an issue.
   */
  countRows (id: string, path: Path): number | undefined {
    const { earlier, counted } = this.batch
    const source = earlier.get(id)
    if (source === undefined) {
      return this.addIssue('reference_unknown', path, describeUnknownOperation(id, this.batch))
    }
    counted.add(source)
    return source
  }

  #addUse (use: ReferenceUse): void {
    const { referenceUses } = this.batch
    const { source } = use.reference
    const uses = referenceUses.get(source)
    if (uses === undefined) referenceUses.set(source, [use])
    else uses.push(use)
  }

  /** Keeps, for each earlier operation, the largest number of rows that a reference needs. */
  #requireRows (use: ReferenceUse): void {
    const key = String(use.reference.source)
    const known = this.batch.requirements.get(this.index)?.get(key)?.anyOf[0]?.rows ?? 0
    if (use.rows > known) this.#addRequirement(key, [use])
  }

  #addRequirement (key: string, anyOf: readonly ReferenceUse[]): void {
    const { requirements, counted } = this.batch
    const known = requirements.get(this.index) ?? new Map<string, Requirement>()
    requirements.set(this.index, known.set(key, { anyOf }))
    for (const { reference: { source } } of anyOf) counted.add(source)
  }
}
