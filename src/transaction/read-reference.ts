/**
 * Reads the values of references from the rows of earlier operations.
 */
import { has, isObject, parseJson, type Json } from '../json/parse.ts'
import type { Reference } from '../plan/nodes.ts'

/** The rows of an operation. */
export interface Rows {
  readonly length: number
  /** A row; undefined if it does not exist or cannot be read. */
  readonly at: (row: number) => Json | undefined
}

/** Returns the rows of operations, from the JSON array of each. */
export function rowsOfResults (
  results: readonly Buffer[]
): (source: number) => Rows | undefined {
  const all = rowsOfCells(results)
  return source => {
    const rows = all.at(source)
    return Array.isArray(rows) ? rows as readonly Json[] : undefined
  }
}

/** Rows of which each is read from its own JSON when it is needed. */
export function rowsOfCells (cells: readonly Buffer[]): Rows {
  const parsed = new Map<number, Json | undefined>()
  return {
    length: cells.length,
    at: row => {
      if (!parsed.has(row)) parsed.set(row, parse(cells[row]))
      return parsed.get(row)
    }
  }
}

/**
 * Returns a function that returns the value of a reference; undefined: it is not known, because the
 * operation returned a number of rows, or rows without the column. `rowsOf`: the rows of an
 * operation; undefined: they are not known.
 */
export function referenceReader (
  rowsOf: (source: number) => Rows | undefined
): (reference: Reference) => Json | undefined {
  return reference => {
    for (const { source, row, column } of [reference, ...reference.otherwise ?? []]) {
      const rows = rowsOf(source)
      if (rows === undefined) return undefined
      if (row === '*') return readAll(rows, column)
      if (row < rows.length) return readColumn(rows.at(row), column)
    }
    return undefined
  }
}

function readAll (rows: Rows, column: string | undefined): Json | undefined {
  const values = Array.from({ length: rows.length }, (_, row) => readColumn(rows.at(row), column))
  return values.includes(undefined) ? undefined : values as readonly Json[]
}

function readColumn (row: Json | undefined, column: string | undefined): Json | undefined {
  if (column === undefined) return row
  return isObject(row) && has(row, column) ? row[column] : undefined
}

/** A column of type json may hold what a request may not, such as a key that occurs twice. */
function parse (json: Buffer | undefined): Json | undefined {
  try {
    return json && parseJson(json)
  } catch {
    return undefined
  }
}
