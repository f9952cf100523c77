/**
 * Reads the values of references from the results of the operations before an error.
 */
import { has, isObject, parseJson, type Json } from '../json/parse.ts'
import type { Reference } from '../plan/nodes.ts'

/**
 * Returns a function that returns the value of a reference; undefined: it is not known, because the
 * operation returned a number of rows, or rows without the column.
 */
export function referenceReader (
  results: readonly Buffer[]
): (reference: Reference) => Json | undefined {
  const parsed = new Map<number, Json | undefined>()
  const resultOf = (source: number): Json | undefined => {
    if (!parsed.has(source)) parsed.set(source, parseResult(results[source]))
    return parsed.get(source)
  }
  return reference => {
    for (const { source, row, column } of [reference, ...reference.otherwise ?? []]) {
      const rows = resultOf(source)
      if (!Array.isArray(rows)) return undefined
      if (row === '*') return readAll(rows as readonly Json[], column)
      const found = (rows as readonly Json[])[row]
      if (found !== undefined) return readColumn(found, column)
    }
    return undefined
  }
}

function readAll (rows: readonly Json[], column: string | undefined): Json | undefined {
  const values = rows.map(row => readColumn(row, column))
  return values.includes(undefined) ? undefined : values as readonly Json[]
}

function readColumn (row: Json, column: string | undefined): Json | undefined {
  if (column === undefined) return row
  return isObject(row) && has(row, column) ? row[column] : undefined
}

/** A column of type json may hold what a request may not, such as a key that occurs twice. */
function parseResult (result: Buffer | undefined): Json | undefined {
  try {
    return result && parseJson(result)
  } catch {
    return undefined
  }
}
