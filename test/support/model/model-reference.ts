/**
 * References of the model: what an operation reads from earlier ones, and the values.
 */
import type { Operation } from './finish-batch.ts'
import { endWith, type Rows } from './outcome.ts'
import { digitsOf, readRaw } from './raw-json.ts'
import type { Kind } from './tables.ts'

/** All `$first` in a value, each as its references. */
export function firstsOf (node: unknown): ReadonlyArray<readonly string[]> {
  if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) return []
  const first = readFirst(node)
  return first === undefined ? Object.values(node).flatMap(firstsOf) : [first]
}

export function readFirst (node: unknown): readonly string[] | undefined {
  return typeof node === 'object' && node !== null && Object.hasOwn(node, '$first')
    ? (node as { readonly $first: readonly string[] }).$first
    : undefined
}

export function chooseRow (first: readonly string[], results: readonly Rows[]): string | undefined {
  return first.find(text => {
    const { source, row } = readReference(text) as Reference
    return Number(row) < (results[source] as Rows).texts.length
  })
}

interface Reference {
  readonly source: number
  readonly row: number | '*'
  readonly column: string | undefined
}

/** Parses a reference. The id of an operation is `o` and its index. */
export function readReference (text: unknown): Reference | undefined {
  const [, source, rest = ''] = typeof text === 'string'
    ? /^\$o(\d)(?:\.(.*))?$/.exec(text) ?? []
    : []
  if (source === undefined) return undefined
  const parts = rest === '' ? [] : rest.split('.')
  const first = parts[0]
  const named = first !== undefined && !/^(\d+|\*)$/.test(first)
  return {
    source: Number(source),
    row: first === '*' ? '*' : named || first === undefined ? 0 : Number(first),
    column: parts[named ? 0 : 1]
  }
}

/** The members that may hold filters. */
const filtering = new Set(['where', 'on_conflict', 'having', 'from', 'with'])

/**
 * Returns the columns of operation `source` that an operation refers to, and the number of rows
 * that it needs.
 */
export function referencesOf (
  operation: Operation,
  source: number
): ReadonlyArray<{ readonly rows: number, readonly column: string | undefined }> {
  const found: Array<{ rows: number, column: string | undefined }> = []
  /** `matchesAll`: with an empty list in this place the condition would match every row. */
  const visit = (node: unknown, { negated = false, matchesAll = false } = {}): void => {
    const first = readFirst(node)
    if (first !== undefined) {
      const columns = first.map(text => readReference(text) as Reference)
        .filter(reference => reference.source === source)
      found.push(...columns.map(({ column }) => ({ column, rows: 0 })))
      return
    }
    const reference = readReference(node)
    if (reference?.source === source) {
      found.push({
        column: reference.column,
        rows: reference.row !== '*' ? reference.row + 1 : matchesAll ? 1 : 0
      })
    }
    if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) return
    for (const [key, value] of Object.entries(node)) {
      const inner = key === 'not' || key === 'not_exists' ? !negated : negated
      visit(value, {
        negated: inner,
        matchesAll: ['in', 'any', 'ov', 'cd'].includes(key)
          ? negated
          : ['nin', 'all', 'cs', 'has_keys_all'].includes(key)
              ? !negated
              : matchesAll
      })
    }
  }
  for (const [member, value] of Object.entries(operation)) {
    if (!filtering.has(member)) {
      for (const one of leaves(value)) visit(one)
    } else visit(value)
  }
  return found
}

/** Returns all values without members. */
function leaves (node: unknown): readonly unknown[] {
  if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) return [node]
  return readFirst(node) === undefined ? Object.values(node).flatMap(leaves) : [node]
}

const escaped = /^\$\$+[A-Za-z_][A-Za-z0-9_]*(\.|$)/

/**
 * Replaces the references in JSON by their values and removes the `$` that escapes text which looks
 * like a reference.
 */
export function resolve (node: unknown, results: readonly Rows[]): unknown {
  const reference = readReference(node)
  if (reference !== undefined) return lookUp(reference, results)
  if (typeof node === 'string') return escaped.test(node) ? node.slice(1) : node
  if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) return node
  const first = readFirst(node)
  if (first !== undefined) return resolve(chooseRow(first, results), results)
  if (Array.isArray(node)) return node.map(one => resolve(one, results))
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => [key, resolve(value, results)])
  )
}

/**
 * Returns a value to store. The outcome is open for a document whose reference yields null: the
 * batch may run twice to tell the JSON null from NULL, which advances sequences a second time.
 */
export function resolveStored (node: unknown, results: readonly Rows[], kind: Kind): unknown {
  const value = resolve(node, results)
  const refers = readReference(node) !== undefined || readFirst(node) !== undefined
  if (kind === 'doc' && value === null && refers) {
    throw endWith({ kind: 'open' })
  }
  return value
}

export function lookUp ({ source, row, column }: Reference, results: readonly Rows[]): unknown {
  const { texts, ordered } = results[source] as Rows
  const rows = texts.map(text => readRaw(text) as Record<string, unknown>)
  if (!ordered && rows.length > 1) throw endWith({ kind: 'open' })
  if (row === '*') return rows.map(one => one[column as string])
  return column === undefined ? rows[row] : rows[row]?.[column]
}

/** Resolves a list operand, for which the order of rows is irrelevant. */
export function resolveList (list: unknown, results: readonly Rows[]): readonly unknown[] {
  const reference = readReference(list)
  if (reference?.row === '*') {
    return lookUp(
      reference, results.map(({ texts }) => ({ texts, ordered: true }))
    ) as readonly unknown[]
  }
  return resolve(list, results) as readonly unknown[]
}
