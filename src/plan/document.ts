/**
 * Values of the request: a scalar → a literal or reference, any JSON → one JSON text cut at its
 * references. Numbers keep their source text; types of columns are PostgreSQL's business.
 */
import { randomUUID } from 'node:crypto'
import { referenceAttempt } from '../../schemas/filter.ts'
import { isObject, writeJson, type Json, type JsonObject } from '../json/parse.ts'
import type {
  Doubt,
  PlanContext,
  JsonDocument,
  JsonShape,
  Literal,
  Path,
  Reference,
  StoredJson
} from './nodes.ts'

// Stands for reference number n while JSON.stringify writes the document; not guessable, so no data
// can look like one.
const placeholder = `reference-${randomUUID()}-`
const placeholders = new RegExp(`"${placeholder}\\d+"`)

/**
 * The one member of an object that is no data, for it begins with `$` and is alone: `{"$col":
 * "a"}`. Undefined for data.
 */
export function specialMember (value: Json): readonly [key: string, operand: Json] | undefined {
  if (!isObject(value)) return undefined
  const [member, ...more] = Object.entries(value as JsonObject)
  return member?.[0].startsWith('$') === true && more.length === 0 ? member : undefined
}

/** A string, number or boolean. */
export function planScalar (value: Json, path: Path, findings: PlanContext): Literal | Reference {
  const meaning = typeof value === 'string' ? findings.string(value, path) : undefined
  if (typeof meaning === 'object') return meaning
  const json = JSON.stringify(meaning ?? value)
  return { kind: 'literal', text: meaning ?? json, json }
}

/** `value` as it stands at `path`. `rows`: how many rows a list in it must have at least. */
export function planDocument (
  value: Json,
  path: Path,
  findings: PlanContext,
  rows = 0
): JsonDocument {
  const cut = cutDocument(
    value,
    references => replaceStrings(value, path, { findings, rows, references })
  )
  const whole = cut.pieces.every(piece => piece === '') ? cut.references[0] : undefined
  return { ...cut, shape: whole === undefined ? shapeOf(value) : shapeOfReference(whole) }
}

/** An object of members that stand at paths of their own. */
export function planObject (members: readonly Member[], findings: PlanContext): StoredJson {
  const doubts = collectDoubts()
  const replaceAll = (references: Reference[]): Json =>
    Object.fromEntries(members.map(({ key, value, path }) => {
      const replaced = replaceStrings(value, path, { findings, rows: 0, references })
      if (typeof value === 'string') doubts.reference(key, 0, references, replaced)
      return [key, replaced]
    }))
  for (const { key, value } of members) doubts.value(key, value)
  const document = cutDocument(
    Object.fromEntries(members.map(({ key, value }) => [key, value])),
    replaceAll
  )
  return { document, doubts: doubts.all() }
}

interface Member {
  readonly key: string
  readonly value: Json
  readonly path: Path
}

/** Rows of `values` that name these `columns`; `positions` are their places there. */
export function planRows (
  rows: readonly JsonObject[],
  columns: readonly string[],
  positions: readonly number[],
  findings: PlanContext
): StoredJson {
  const doubts = collectDoubts()
  const replaceRow = (row: JsonObject, i: number, references: Reference[]): Json =>
    Object.fromEntries(
      Object.entries(row).map(([column, value]) => {
        const path = ['values', positions[i] as number, column]
        const replaced = replaceStrings(value, path, { findings, rows: 0, references })
        if (typeof value === 'string') doubts.reference(column, i, references, replaced)
        return [column, replaced]
      })
    )
  // By number: an iterator makes an object for each of many thousand values.
  for (const column of columns) {
    for (let i = 0; i < rows.length; i++) {
      doubts.value(column, (rows[i] as JsonObject)[column] as Json)
    }
  }
  const document = cutDocument(
    rows,
    references => rows.map((row, i) => replaceRow(row, i, references))
  )
  return { document, doubts: doubts.all() }
}

/** The JSON array of references alone. */
export function referenceDocument (references: readonly Reference[]): JsonDocument {
  const pieces = ['[', ...references.slice(1).map(() => ','), ']']
  return { kind: 'document', pieces, references, shape: 'array' }
}

/** Shapes by certainty, the most certain first. */
const shapes: readonly JsonShape[] = ['scalar', 'list', 'object', 'array', 'reference']

function collectDoubts () {
  const doubts = new Map<string, {
    column: string,
    shape: Doubt['shape'],
    places: Array<Doubt['places'][number]>
  }>()
  const note = (column: string, shape: JsonShape): Doubt | undefined => {
    if (shape === 'scalar') return undefined
    const known = doubts.get(column)
    if (known === undefined) doubts.set(column, { column, shape, places: [] })
    else if (shapes.indexOf(shape) > shapes.indexOf(known.shape)) known.shape = shape
    return doubts.get(column)
  }
  return {
    /** A value that is no string. */
    value (column: string, value: Json): void {
      if (typeof value === 'object' && value !== null) note(column, shapeOf(value))
    },
    /** A string that was replaced; it is the last of the references when it was one. */
    reference (
      column: string,
      row: number,
      references: readonly Reference[],
      replaced: Json
    ): void {
      const reference = references.at(-1)
      if (reference === undefined || replaced !== `${placeholder}${references.length - 1}`) return
      const shape = shapeOfReference(reference)
      note(column, shape)
      if (isValue(reference)) doubts.get(column)?.places.push({ row, reference })
    },
    all: (): readonly Doubt[] => [...doubts.values()]
  }
}

/** Whether a reference means one value, and neither a list nor a row. */
export function isValue ({ row, column }: Reference): boolean {
  return row !== '*' && column !== undefined
}

/** What a reference may mean. */
export function shapeOfReference ({ row, column }: Reference): JsonShape {
  if (row === '*') return 'array'
  return column === undefined ? 'object' : 'reference'
}

/** The shape of JSON that is no reference itself. */
function shapeOf (value: Json): JsonShape {
  if (isObject(value)) return 'object'
  if (!Array.isArray(value)) return 'scalar'
  const inside = (value as readonly Json[]).map(item =>
    typeof item === 'string' && referenceAttempt.test(item) ? 'reference' : shapeOf(item)
  )
  if (inside.includes('reference') || inside.includes('array')) return 'array'
  if (inside.includes('object')) return 'object'
  // A list beside a value is no dimension of an array.
  return inside.includes('list') && inside.includes('scalar') ? 'array' : 'list'
}

/** `replace` is asked only when there may be a reference. */
function cutDocument (value: Json, replace: (references: Reference[]) => Json): JsonDocument {
  const text = writeJson(value)
  if (!text.includes('"$')) {
    return { kind: 'document', pieces: [text], references: [], shape: 'scalar' }
  }
  const references: Reference[] = []
  const cut = JSON.stringify(replace(references))
  return { kind: 'document', pieces: cut.split(placeholders), references, shape: 'scalar' }
}

interface Cut {
  readonly findings: PlanContext
  readonly rows: number
  readonly references: Reference[]
}

/** A copy of `value` with placeholders for references and `$$` unescaped. */
function replaceStrings (value: Json, path: Path, cut: Cut): Json {
  if (typeof value === 'string') {
    const meaning = cut.findings.string(value, path, cut.rows)
    return typeof meaning === 'string'
      ? meaning
      : `${placeholder}${cut.references.push(meaning) - 1}`
  }
  if (Array.isArray(value)) {
    return value.map((item: Json, i) => replaceStrings(item, [...path, i], cut))
  }
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, replaceStrings(item, [...path, key], cut)])
  )
}
