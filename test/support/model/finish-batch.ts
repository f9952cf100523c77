/**
 * Finishes generated operations: sets their ids and replaces the placeholders of references.
 */
import { fits, placeholder, type Placeholder, type ReferenceNode } from './arbitrary-value.ts'
import { outputOf } from './output-kinds.ts'
import { isRawJSON } from './raw-json.ts'
import type { Kind } from './tables.ts'

export type Operation = Readonly<Record<string, unknown>> & {
  readonly id: string,
  readonly op: 'insert' | 'update' | 'delete' | 'select' | 'call',
  readonly table: string
}

export const compact = (members: object): object =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

/** The columns that an operation returns, and its minimum number of rows if it succeeds. */
interface Output {
  readonly columns: Readonly<Record<string, Kind>>
  readonly minRows: number
}

/** Assigns ids to operations and replaces the placeholders of references. */
export function finish (drawn: readonly object[]): readonly Operation[] {
  const outputs: Output[] = []
  return drawn.map((one, index) => {
    const operation = nameSources(
      repair({
        id: `o${index}`, ...refuseEmptyLists(fillReferences(compact(one), index, outputs)) as object
      } as Operation),
      index
    )
    outputs.push({ columns: outputOf(operation), minRows: rowsOf(operation) })
    return operation
  })
}

/** Sets the ids of earlier operations in `when`, which the first operation cannot have. */
function nameSources (operation: Operation, index: number): Operation {
  const { when, ...others } = operation
  if (when === undefined || index === 0) return others as Operation
  const sources = (when as ReadonlyArray<readonly [number, unknown]>).map(([back, rows]) =>
    [`o${index - 1 - back % index}`, rows]
  )
  return { ...operation, when: Object.fromEntries(sources) as object }
}

/**
 * Removes an `on_conflict` without `set` that would be rejected: for rows with different columns or
 * without columns.
 */
function repair (operation: Operation): Operation {
  const conflict = operation['on_conflict'] as { do: string, set?: object } | undefined
  const rows = (operation['values'] ?? [operation['columns'] ?? {}]) as object[]
  const shapes = new Set(rows.map(row => Object.keys(row).sort().join()))
  if (
    conflict?.do !== 'update' || conflict.set !== undefined ||
    (shapes.size === 1 && !shapes.has(''))
  ) return operation
  return { ...operation, on_conflict: { ...conflict, do: 'nothing' } }
}

/** Replaces `in: []` where it would match every row, which the service refuses. */
function refuseEmptyLists (node: unknown, negated = false): unknown {
  if (typeof node !== 'object' || node === null || isRawJSON(node)) return node
  if (Array.isArray(node)) return node.map(one => refuseEmptyLists(one, negated))
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) =>
      negated && key === 'in' && Array.isArray(value) && value.length === 0
        ? ['is', 'not_null']
        : [key, refuseEmptyLists(value, negated !== ['not', 'not_exists'].includes(key))]
    )
  )
}

function fillReferences (node: unknown, index: number, outputs: readonly Output[]): unknown {
  if (typeof node !== 'object' || node === null || isRawJSON(node)) return node
  if (placeholder in node) return reference((node as ReferenceNode)[placeholder], index, outputs)
  if (Array.isArray(node)) return node.map(one => fillReferences(one, index, outputs))
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => [key, fillReferences(value, index, outputs)])
  )
}

/**
 * Returns the text of a reference, or `$first` with two of them, or `instead` if there is nothing
 * to refer to.
 */
function reference (drawn: Placeholder, index: number, outputs: readonly Output[]): unknown {
  const { back, row, pick, instead } = drawn
  const one = referenceOf(drawn, index, outputs)
  if (drawn.alone || pick % 4 > 0 || row === '*' || row.startsWith('whole')) return one
  const other = referenceOf({ ...drawn, back: back + 1, pick: 24 }, index, outputs)
  const both = [one, other]
  // A value instead of a reference is not valid in `$first`.
  return both.every(text => typeof text === 'string' && text.startsWith('$o') && text.includes('.'))
    ? { $first: pick % 8 > 0 ? both : both.toReversed() }
    : one === other ? fillReferences(instead, index, outputs) : one
}

function referenceOf (
  { back, row, pick, wants, instead }: Placeholder,
  index: number,
  outputs: readonly Output[]
): unknown {
  const source = index - 1 - back % Math.max(index, 1)
  const output = outputs[source]
  if (output === undefined) return fillReferences(instead, index, outputs)
  // Occasionally refers to a missing row, but not so often that most batches fail.
  if (row !== '*' && (row === '1' ? 2 : 1) > output.minRows && pick % 12 > 0) {
    return fillReferences(instead, index, outputs)
  }
  if (row.startsWith('whole')) return `$o${source}${row === 'whole' ? '' : '.0'}`
  if (pick === 150) return `$o${source}.${row === '' ? '' : `${row}.`}nope`
  const wanted = row === '*' && wants === 'tags' ? ['text'] : fits[wants]
  const names = Object.keys(output.columns).filter(name =>
    wanted.includes(output.columns[name] as Kind))
  if (names.length === 0) return fillReferences(instead, index, outputs)
  return `$o${source}.${row === '' ? '' : `${row}.`}${String(names[pick % names.length])}`
}

function rowsOf (operation: Operation): number {
  const { op, values, on_conflict: conflict, where, when, limit, offset = 0 } = operation
  if (when !== undefined) return 0
  if (op === 'call') return 1
  if (op === 'insert') return conflict === undefined ? (values as unknown[] ?? []).length : 0
  const narrowing = ['from', 'having', 'after', 'group_by']
  const narrowed = narrowing.some(member => operation[member] !== undefined)
  return op === 'delete' || where !== undefined || operation['key'] !== undefined || narrowed
    ? 0
    : Math.min((operation['distinct'] === true ? 1 : 2) - Number(offset), Number(limit ?? 2))
}
