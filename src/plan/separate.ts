/**
 * Divides a plan into statements that are sent one by one, for engines on which an operation cannot
 * read the rows of an earlier one: a reference becomes a value like those of the request, which is
 * filled in when its rows have arrived. Rows that are stored become one statement each: such an
 * engine returns the rows of several in any order.
 */
import { isJoining } from '../../schemas/modifier.ts'
import { documentOf, placeholderOf, readWhole, referToValue } from './document.ts'
import { toPath } from './name.ts'
import type {
  Assignment,
  BulkUpdateGroup,
  BulkUpdateNode,
  InsertNode,
  JsonDocument,
  PlanNode,
  Predicate,
  Reference,
  RowField,
  RowGroup,
  StoredJson,
  UpdateNode
} from './nodes.ts'
import type { Plan } from './plan.ts'
import { referTo } from './reference.ts'

/** A plan whose operations are sent one by one. */
export interface SeparatePlan {
  readonly statements: readonly SeparateStatement[]
  /** What each operation sends, by its index. */
  readonly operations: ReadonlyArray<readonly Sending[]>
}

/** A statement that may be sent for several rows. */
export interface SeparateStatement {
  /** Its only operation has the values of the batch, and then those of a sending. */
  readonly plan: Plan
  /** Whether later operations read its rows. */
  readonly isRead: boolean
}

/** A statement with its values. */
export interface Sending {
  /** The number of the statement. */
  readonly statement: number
  /** Rows of which each is sent; undefined: the statement is that of the whole operation. */
  readonly sent?: SentRows
  /** The values that follow those of a row. */
  readonly inputs: readonly Input[]
}

/** A value of an earlier operation. */
export interface Input {
  readonly reference: Reference
  /** How often a statement contains it. */
  readonly uses: number
}

/** Rows that are sent one by one. */
export interface SentRows {
  readonly rows: StoredJson
  /** Their positions in `values`. Rows that the plan does not contain have none. */
  readonly positions: readonly number[]
  /** The values of each row, which are the first ones of the statement. */
  readonly fields: ReadonlyArray<Pick<RowField, 'name' | 'column'>>
  /** Columns whose values no other row may have, or the constraint with these columns. */
  readonly key: readonly string[] | { readonly constraint: string } | undefined
}

interface SeparateOptions {
  /** How many values a batch with this plan has. */
  readonly values: number
  /** The rows of a parameter are an upload, which is stored by one statement. */
  readonly isUpload: boolean
}

/** Divides a plan. */
export function separate (plan: Plan, { values, isUpload }: SeparateOptions): SeparatePlan {
  const statements: SeparateStatement[] = []
  const operations = plan.operations.map(node => {
    const isRead = plan.referenceUses.has(node.index)
    const add = (own: PlanNode): number =>
      statements.push({ plan: planOf(plan, withoutConditions(own, isRead)), isRead }) - 1
    const returnsRows = isRead || (node.answersCount !== true && node.output?.length !== 0)
    if (node.kind === 'bulk_update') return separateUpdates(node, values, add)
    if (node.kind === 'insert' && returnsRows && hasSeveralRows(node, isUpload)) {
      return separateInserts(node, values, add)
    }
    const { node: own, inputs } = replaceReferences(node, values)
    return [{ statement: add(own), inputs }]
  })
  return { statements, operations }
}

/** A plan of one operation, whose references are values. */
function planOf (plan: Plan, node: PlanNode): Plan {
  return {
    ...plan,
    operations: [node],
    referenceUses: new Map(),
    requirements: new Map(),
    counted: new Set()
  }
}

/** Removes what the service decides from the rows that arrive. */
function withoutConditions (node: PlanNode, isRead: boolean): PlanNode {
  const answersCount = !isRead && node.answersCount === true
  return { ...node, when: [], expect: undefined, answersCount }
}

/**
 * Whether `on_conflict` may change the key of a row that exists. Only PostgreSQL knows then which
 * row is changed a second time, so all rows are one statement.
 */
export function changesKey ({ conflict }: InsertNode): boolean {
  if (conflict?.update?.isDefault !== false) return false
  const { target, update: { set } } = conflict
  return 'constraint' in target || set.some(({ column }) => target.columns.includes(column))
}

/** Whether an insert has several rows, each of which becomes a statement. */
function hasSeveralRows (node: InsertNode, isUpload: boolean): boolean {
  const { groups, query } = node
  if (query !== undefined || changesKey(node)) return false
  return groups.length > 1 || groups.some(({ positions, rows }) =>
    readWhole(rows) === undefined ? positions.length > 1 : !isUpload)
}

/** Adds a statement, and returns its number. */
type AddStatement = (node: PlanNode) => number

function separateInserts (
  node: InsertNode,
  first: number,
  add: AddStatement
): readonly Sending[] {
  const { target, update } = node.conflict ?? {}
  // PostgreSQL refuses a second row with the same key, but only in one statement.
  const key = update && target && ('columns' in target ? target.columns : target)
  return node.groups.map(({ columns, positions, rows }) => {
    const fields = columns.map(column => ({ name: column, column }))
    const group: RowGroup = { columns, positions: [0], rows: storedRow(columns, first) }
    const own = replaceReferences({ ...node, groups: [group] }, first + columns.length)
    const sent = { rows, positions, fields, key }
    return { statement: add(own.node), sent, inputs: own.inputs }
  })
}

function separateUpdates (
  node: BulkUpdateNode,
  first: number,
  add: AddStatement
): readonly Sending[] {
  return node.groups.map(group => {
    const { fields, positions, rows } = group
    const own = replaceReferences(updateOfRow(node, group, first), first + fields.length)
    const key = fields.filter(isKey).map(({ column }) => column)
    const sent = { rows, positions, fields, key }
    return { statement: add(own.node), sent, inputs: own.inputs }
  })
}

function isKey ({ modifier }: RowField): boolean {
  return modifier === undefined
}

/** The update of one row of a bulk update. Its fields are the values from `first` on. */
function updateOfRow (
  { groups: _, ...node }: BulkUpdateNode,
  { fields, computed }: BulkUpdateGroup,
  first: number
): UpdateNode {
  const all = fields.map((field, i) => ({ ...field, position: first + i }))
  const keys = all.filter(isKey).map(({ column, position }): Predicate => ({
    kind: 'condition',
    column: toPath(column),
    operator: 'eq',
    // As a value that is stored: of jsonb, a string is itself, and not the text of JSON.
    operand: documentOf(referToValue(position, true))
  }))
  const changed = all.flatMap(({ column, modifier, position }): readonly Assignment[] => {
    if (modifier === undefined) return []
    const operand = modifier === '$value' || isJoining(modifier)
      ? documentOf(referToValue(position, true))
      : referToRead(position, false)
    return [{ column, modifier, operand }]
  })
  return {
    ...node,
    kind: 'update',
    set: [...changed, ...computed],
    where: [...keys, ...node.where]
  }
}

/** One row, whose values are those from the position `first` on. */
function storedRow (columns: readonly string[], first: number): StoredJson {
  return {
    kind: 'document',
    value: [Object.fromEntries(columns.map((column, i) => [column, placeholderOf(i)]))],
    references: columns.map((_, i) => referToValue(first + i, false)),
    inBulk: false
  }
}

/** Replaces the references to operations by values from the position `first` on. */
function replaceReferences<Node extends PlanNode> (
  node: Node,
  first: number
): { readonly node: Node, readonly inputs: readonly Input[] } {
  const found = new Map<string, { readonly reference: Reference, uses: number }>()
  const positions = new Map<string, number>()
  const replaceIn = <Part>(part: Part, uses: number): Part => mapReferences(part, reference => {
    const key = JSON.stringify(reference)
    const input = found.get(key) ?? { reference, uses: 0 }
    input.uses += uses
    found.set(key, input)
    positions.set(key, positions.get(key) ?? first + positions.size)
    return referToRead(positions.get(key) as number, reference.row === '*')
  })
  if (node.kind !== 'insert') return { node: replaceIn(node, 1), inputs: [...found.values()] }
  // Each group of rows repeats what happens to a row that exists.
  const conflict = replaceIn(node.conflict, Math.max(1, node.groups.length))
  const { conflict: _, ...rest } = node
  const own = { ...replaceIn(rest, 1), conflict } as Node
  return { node: own, inputs: [...found.values()] }
}

/** A reference to a value that is filled in when the statement is sent. */
function referToRead (position: number, isList: boolean): Reference {
  return referTo('', { position, isList, minItems: 0, isOptional: false, isRead: true })
}

/** Returns a part of a plan with other references. */
function mapReferences<Part> (part: Part, replace: (reference: Reference) => Reference): Part {
  const map = <Any>(value: Any): Any => mapReferences(value, replace)
  if (typeof part !== 'object' || part === null) return part
  if (Array.isArray(part)) return part.map(map) as Part
  if ('kind' in part && part.kind === 'literal') return part
  if ('kind' in part && part.kind === 'reference') {
    const reference = part as unknown as Reference
    return (reference.parameter === undefined ? replace(reference) : reference) as Part
  }
  if ('kind' in part && part.kind === 'document') {
    return { ...part, references: map((part as unknown as JsonDocument).references) }
  }
  return Object.fromEntries(Object.entries(part).map(([name, value]) => [name, map(value)])) as Part
}
