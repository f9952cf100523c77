/**
 * Plans values that an operation stores: the rows of an insert, or the new values of an update.
 * References and issues are found at once. The JSON text of all values, which few statements need,
 * is written when it is read.
 */
import { isNested, type Json, type JsonObject } from '../json/parse.ts'
import type { Path, PlanContext } from './context.ts'
import {
  cutDocument,
  findReference,
  placeholderOf,
  referToValue,
  replaceStrings,
  splitDocument
} from './document.ts'
import type {
  Cell,
  JsonDocument,
  Reference,
  Rewriters,
  RowGroup,
  StoredJson,
  UncertainColumn
} from './nodes.ts'
import { isValue } from './reference.ts'

/** Maximum number of rows whose values are kept one by one (`cells`). */
export const MAX_CELL_ROWS = 16

export interface DocumentMember {
  readonly column: string
  readonly value: Json
  readonly path: Path
}

/** The name of a field of `planFields`, which PostgreSQL gives to a field of ROW(…) too. */
export function fieldName (position: number): string {
  return `f${position + 1}`
}

/** Plans rows of fields: objects, each from members with their own paths in the request. */
export function planFields (
  rows: ReadonlyArray<readonly DocumentMember[]>,
  context: PlanContext
): StoredJson {
  if (rows.length > MAX_CELL_ROWS) {
    const columns = (rows[0] as readonly DocumentMember[]).map(({ column }) => column)
    const fields = new Map(columns.map((column, i) => [column, i]))
    const pathOf = (i: number, column: string): Path => {
      const members = rows[i] as readonly DocumentMember[]
      return (members[fields.get(column) as number] as DocumentMember).path
    }
    const objects = rows.map(members =>
      Object.fromEntries(members.map(({ column, value }) => [column, value]))
    )
    return planMany({ rows: objects, columns, pathOf }, context)
  }
  const values = new StoredValues({ isList: true })
  for (const members of rows) values.addRow(members, context)
  return values
}

/** Plans an object from members, each with its own path in the request. */
export function planObject (
  members: readonly DocumentMember[],
  context: PlanContext
): StoredJson {
  const values = new StoredValues({ isList: false })
  values.addRow(members, context)
  return values
}

interface Rows extends Pick<RowGroup, 'columns' | 'positions'> {
  readonly rows: readonly JsonObject[]
}

/** Plans rows of `values` that name these `columns`, at these `positions`. */
export function planRows (group: Rows, context: PlanContext): StoredJson {
  const { rows, columns, positions } = group
  if (rows.length > MAX_CELL_ROWS) {
    const pathOf = (i: number, column: string): Path => ['values', positions[i] as number, column]
    return planMany({ rows, columns, pathOf }, context)
  }
  const values = new StoredValues({ isList: true })
  for (let i = 0; i < rows.length; i++) {
    const position = positions[i] as number
    values.addRow(
      Object.entries(rows[i] as JsonObject).map(([column, value]) => ({
        column,
        value,
        path: ['values', position, column]
      })),
      context
    )
  }
  return values
}

/** Values that are kept one by one. */
class StoredValues implements StoredJson {
  readonly cells: Array<Map<string, Cell>> = []
  /** The rows with unescaped strings, and with placeholders for references. */
  readonly #rows: Array<ReadonlyArray<readonly [column: string, value: Json]>> = []
  readonly #references: Reference[] = []
  readonly #uncertain = collectUncertainColumns()
  /** Whether the document is a list of rows, or the only row. */
  readonly #isList: boolean
  #document: JsonDocument | undefined

  constructor ({ isList }: { readonly isList: boolean }) {
    this.#isList = isList
  }

  addRow (members: readonly DocumentMember[], context: PlanContext): void {
    const cells = new Map<string, Cell>()
    const row = members.map(member => {
      const { cell, value } = this.#readMember(member, context)
      const { column } = member
      cells.set(column, cell)
      this.#uncertain.addValue(column, member.value)
      if (cell.kind === 'reference') this.#uncertain.addReference(column, this.cells.length, cell)
      return [column, value] as const
    })
    this.cells.push(cells)
    this.#rows.push(row)
  }

  /** Returns a cell, and its value in the document. */
  #readMember (
    { value, path }: DocumentMember,
    context: PlanContext
  ): { readonly cell: Cell, readonly value: Json } {
    const references = this.#references
    const before = references.length
    const position = context.findSlot(path)
    if (position !== undefined) {
      const number = references.push(referToValue(position, isNested(value))) - 1
      return { cell: { kind: 'literal', position }, value: placeholderOf(number) }
    }
    const special = typeof value === 'string'
      ? value.startsWith('$')
      : typeof value === 'object' && value !== null && JSON.stringify(value).includes('"$')
    if (!special) return { cell: { kind: 'literal', value }, value }
    const replaced = replaceStrings(value, path, { context, references })
    if (references.length === before) {
      return { cell: { kind: 'literal', value: replaced }, value: replaced }
    }
    const cell = findReference(replaced, references) ?? {
      kind: 'mixed',
      document: splitDocument(JSON.stringify(replaced), references.slice(before))
    }
    return { cell, value: replaced }
  }

  get document (): JsonDocument {
    this.#document ??= this.rewrite(new Map())
    return this.#document
  }

  rewrite (rewriters: Rewriters): JsonDocument {
    const rows = this.#rows.map((row, i) =>
      Object.fromEntries(row.map(([column, value]) => {
        const rewrite = rewriters.get(column)
        const cell = this.cells[i]?.get(column) as Cell
        const refers = cell.kind !== 'literal' || cell.position !== undefined
        return [column, rewrite === undefined ? value : rewrite(value, i, refers)]
      }))
    )
    return splitDocument(JSON.stringify(this.#isList ? rows : rows[0]), this.#references)
  }

  get uncertainColumns (): readonly UncertainColumn[] {
    return this.#uncertain.all()
  }
}

interface ManyRows {
  readonly rows: readonly JsonObject[]
  readonly columns: readonly string[]
  /** The path of a value in the request. */
  readonly pathOf: (row: number, column: string) => Path
}

/** Plans rows of which only the document is kept. */
function planMany ({ rows, columns, pathOf }: ManyRows, context: PlanContext): StoredJson {
  const uncertainColumns = collectUncertainColumns()
  /** The rows in which a column has a reference, also inside its value. */
  const referring = new Map(columns.map(column => [column, new Set<number>()]))
  let replaced = rows
  const replaceRow = (row: JsonObject, i: number, references: Reference[]): JsonObject =>
    Object.fromEntries(
      Object.entries(row).map(([column, value]) => {
        const before = references.length
        const replaced = replaceStrings(value, pathOf(i, column), { context, references })
        if (references.length > before) referring.get(column)?.add(i)
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
  const document = cutDocument(rows, references => {
    replaced = rows.map((row, i) => replaceRow(row, i, references))
    return replaced
  })
  return {
    document,
    uncertainColumns: uncertainColumns.all(),
    cells: undefined,
    rewrite: rewriters => {
      const written = rewriteRows(replaced, rewriters, referring)
      return written === undefined
        ? document
        : splitDocument(JSON.stringify(written), document.references)
    }
  }
}

/** Returns rows with other values, or undefined if no value is another one. */
function rewriteRows (
  rows: readonly JsonObject[],
  rewriters: Rewriters,
  referring: ReadonlyMap<string, ReadonlySet<number>>
): readonly JsonObject[] | undefined {
  let written: Array<Record<string, Json>> | undefined
  for (const [column, rewrite] of rewriters) {
    const refers = referring.get(column) as ReadonlySet<number>
    for (let i = 0; i < rows.length; i++) {
      const value = (rows[i] as JsonObject)[column] as Json
      const other = rewrite(value, i, refers.has(i))
      if (other === value) continue
      written ??= rows.map(row => ({ ...row }));
      (written[i] as Record<string, Json>)[column] = other
    }
  }
  return written
}

function collectUncertainColumns () {
  const uncertainColumns = new Map<string, {
    column: string,
    references: Array<UncertainColumn['references'][number]>
  }>()
  const add = (column: string): Array<UncertainColumn['references'][number]> => {
    const uncertain = uncertainColumns.get(column) ?? { column, references: [] }
    uncertainColumns.set(column, uncertain)
    return uncertain.references
  }
  return {
    addValue (column: string, value: Json): void {
      if (isNested(value)) add(column)
    },
    /** Adds a value that is a reference as a whole. */
    addReference (column: string, row: number, reference: Reference): void {
      const references = add(column)
      if (isValue(reference)) references.push({ row, reference })
    },
    all: (): readonly UncertainColumn[] => [...uncertainColumns.values()]
  }
}
