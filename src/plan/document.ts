/**
 * Plans values of the request: a scalar → a literal or a reference, JSON → one JSON text cut at its
 * references. Numbers keep their source text. PostgreSQL converts values to the types of columns.
 */
import { randomUUID } from 'node:crypto'
import { referenceAttempt } from '../../schemas/operand.ts'
import { isObject, writeJson, type Json, type JsonObject } from '../json/parse.ts'
import type { Path, Place, PlanContext } from './context.ts'
import type {
  UncertainColumn,
  JsonDocument,
  JsonShape,
  Literal,
  Reference,
  RowGroup,
  StoredJson
} from './nodes.ts'

// Replaces reference number n while JSON.stringify writes the document. It is random, so data
// cannot look like it.
const placeholder = `reference-${randomUUID()}-`
const placeholders = new RegExp(`"${placeholder}\\d+"`)

/**
 * Returns the only member of an object if its key begins with `$`, as in `{"$col": "a"}`. Such an
 * object is not data. Returns undefined for data.
 */
export function readDollarMember (
  value: Json
): readonly [key: string, operand: Json] | undefined {
  if (!isObject(value)) return undefined
  const [member, ...more] = Object.entries(value as JsonObject)
  return member?.[0].startsWith('$') === true && more.length === 0 ? member : undefined
}

/** Plans a string, number or boolean. */
export function planScalar (value: Json, { path, context }: Place): Literal | Reference {
  const resolved = typeof value === 'string' ? context.resolveString(value, path) : undefined
  if (typeof resolved === 'object') return resolved
  const json = JSON.stringify(resolved ?? value)
  return { kind: 'literal', text: resolved ?? json, json }
}

/** Plans any JSON. `minRows` is the minimum number of rows of a list in it. */
export function planDocument (
  value: Json,
  { path, context }: Place,
  minRows = 0
): JsonDocument {
  const cut = cutDocument(
    value,
    references => replaceStrings(value, path, { context, minRows, references })
  )
  const whole = cut.pieces.every(piece => piece === '') ? cut.references[0] : undefined
  return { ...cut, shape: whole === undefined ? shapeOf(value) : shapeOfReference(whole) }
}

export interface DocumentMember {
  readonly column: string
  readonly value: Json
  readonly path: Path
}

/** Plans an object from members, each with its own path in the request. */
export function planObject (
  members: readonly DocumentMember[],
  context: PlanContext
): StoredJson {
  const uncertainColumns = collectUncertainColumns()
  for (const { column, value } of members) uncertainColumns.addValue(column, value)
  const document = cutDocument(
    Object.fromEntries(members.map(({ column, value }) => [column, value])),
    references =>
      Object.fromEntries(members.map(({ column, value, path }) => {
        const replaced = replaceStrings(value, path, { context, minRows: 0, references })
        const reference = findReference(replaced, references)
        if (reference !== undefined) uncertainColumns.addReference(column, 0, reference)
        return [column, replaced]
      }))
  )
  return { document, uncertainColumns: uncertainColumns.all() }
}

interface Rows extends Pick<RowGroup, 'columns' | 'positions'> {
  readonly rows: readonly JsonObject[]
}

/** Plans rows of `values` that name these `columns`, at these `positions`. */
export function planRows ({ rows, columns, positions }: Rows, context: PlanContext): StoredJson {
  const uncertainColumns = collectUncertainColumns()
  const replaceRow = (row: JsonObject, i: number, references: Reference[]): Json =>
    Object.fromEntries(
      Object.entries(row).map(([column, value]) => {
        const path = ['values', positions[i] as number, column]
        const replaced = replaceStrings(value, path, { context, minRows: 0, references })
        const reference = findReference(replaced, references)
        if (reference !== undefined) uncertainColumns.addReference(column, i, reference)
        return [column, replaced]
      })
    )
  // By index: an iterator would create an object for each of many thousand values.
  for (const column of columns) {
    for (let i = 0; i < rows.length; i++) {
      uncertainColumns.addValue(column, (rows[i] as JsonObject)[column] as Json)
    }
  }
  const document = cutDocument(
    rows,
    references => rows.map((row, i) => replaceRow(row, i, references))
  )
  return { document, uncertainColumns: uncertainColumns.all() }
}

/** Creates the JSON array of references. */
export function createReferenceArray (references: readonly Reference[]): JsonDocument {
  const pieces = ['[', ...references.slice(1).map(() => ','), ']']
  return { kind: 'document', pieces, references, shape: 'array' }
}

/** JSON shapes, the most certain first. */
const shapes: readonly JsonShape[] = ['scalar', 'list', 'object', 'array', 'reference']

function collectUncertainColumns () {
  const uncertainColumns = new Map<string, {
    column: string,
    shape: UncertainColumn['shape'],
    references: Array<UncertainColumn['references'][number]>
  }>()
  const add = (column: string, shape: JsonShape): void => {
    if (shape === 'scalar') return
    const uncertain = uncertainColumns.get(column)
    if (uncertain === undefined) uncertainColumns.set(column, { column, shape, references: [] })
    else if (shapes.indexOf(shape) > shapes.indexOf(uncertain.shape)) uncertain.shape = shape
  }
  return {
    addValue (column: string, value: Json): void {
      if (typeof value === 'object' && value !== null) add(column, shapeOf(value))
    },
    /** Adds a value that is a reference as a whole. */
    addReference (column: string, row: number, reference: Reference): void {
      add(column, shapeOfReference(reference))
      if (isValue(reference)) uncertainColumns.get(column)?.references.push({ row, reference })
    },
    all: (): readonly UncertainColumn[] => [...uncertainColumns.values()]
  }
}

/** Whether a reference gives one value, not a list or a row. */
export function isValue ({ row, column }: Reference): boolean {
  return row !== '*' && column !== undefined
}

/** The shape of what a reference gives. */
export function shapeOfReference ({ row, column }: Reference): JsonShape {
  if (row === '*') return 'array'
  return column === undefined ? 'object' : 'reference'
}

/** The shape of JSON that is not a reference itself. */
function shapeOf (value: Json): JsonShape {
  if (isObject(value)) return 'object'
  if (!Array.isArray(value)) return 'scalar'
  const inside = (value as readonly Json[]).map(item =>
    typeof item === 'string' && referenceAttempt.test(item) ? 'reference' : shapeOf(item)
  )
  if (inside.includes('reference') || inside.includes('array')) return 'array'
  if (inside.includes('object')) return 'object'
  // A list next to a value does not form an array of more dimensions.
  return inside.includes('list') && inside.includes('scalar') ? 'array' : 'list'
}

/** Cuts a document at its references. Calls `replace` only if there may be one. */
function cutDocument (value: Json, replace: (references: Reference[]) => Json): JsonDocument {
  const text = writeJson(value)
  if (!text.includes('"$')) {
    return { kind: 'document', pieces: [text], references: [], shape: 'scalar' }
  }
  const references: Reference[] = []
  const cut = JSON.stringify(replace(references))
  return { kind: 'document', pieces: cut.split(placeholders), references, shape: 'scalar' }
}

interface Replacement {
  readonly context: PlanContext
  readonly minRows: number
  /** References found so far, by the number of their placeholder. */
  readonly references: Reference[]
}

/** Copies `value`, with placeholders for references and `$$` unescaped. */
function replaceStrings (value: Json, path: Path, replacement: Replacement): Json {
  if (typeof value === 'string') {
    const { context, minRows, references } = replacement
    const resolved = context.resolveString(value, path, minRows)
    return typeof resolved === 'string'
      ? resolved
      : `${placeholder}${references.push(resolved) - 1}`
  }
  if (Array.isArray(value)) {
    return value.map((item: Json, i) => replaceStrings(item, [...path, i], replacement))
  }
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(
      ([key, item]) => [key, replaceStrings(item, [...path, key], replacement)]
    )
  )
}

/** The last reference, if `replaced` is its placeholder. */
function findReference (
  replaced: Json,
  references: readonly Reference[]
): Reference | undefined {
  return replaced === `${placeholder}${references.length - 1}` ? references.at(-1) : undefined
}
