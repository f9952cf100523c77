/**
 * Decides, between the operations of a batch that are sent one by one, what comes next: it checks
 * the rows of each as a statement does where all operations are sent at once, and fills the next
 * one with them.
 */
import { failure } from '../errors/catalogue.ts'
import { SqlState } from '../errors/sqlstates.ts'
import { has, isObject, type Json } from '../json/parse.ts'
import type { PlanNode, Reference } from '../plan/nodes.ts'
import { answersOnlyCount } from '../plan/output.ts'
import type { RaisedError } from '../sql/statement/raised-error.ts'
import {
  textOfKey,
  type FilledStatement,
  type SeparateBatch
} from '../sql/statement/separate-batch.ts'
import { columnsRead, listsRead, mayReadLists } from '../sql/statement/shared-results.ts'
import type { RefusedValue } from '../sql/statement/slot.ts'
import type { Statement } from '../sql/statement/statement.ts'
import { joinRows } from './answers.ts'
import type { Failed, RowSink } from './outcome.ts'
import { referenceReader, rowsOfCells, type Rows } from './read-reference.ts'

/** What is sent after the rows so far: an operation, or the end of the transaction. */
export type Next =
  | NextOperation
  | { readonly kind: 'end' }
  | { readonly kind: 'failed', readonly failed: SequenceFailure }

interface NextOperation {
  readonly kind: 'operation'
  readonly index: number
  readonly statements: readonly Statement[]
}

/** Why the transaction is rolled back. */
export type SequenceFailure = Pick<Failed, 'error' | 'at' | 'raised' | 'refusal'>

const SKIPPED = Buffer.from('null')
const NO_ROWS = Buffer.from('[]')
/** A row of `"returning": []`. */
const NO_COLUMNS: Json = {}

export class Sequence {
  /** The result of each operation so far, as the response has it. */
  readonly results: Buffer[] = []
  readonly #batch: SeparateBatch
  readonly #sink: RowSink | undefined
  /** The rows that later operations read. */
  readonly #rows: Rows[] = []
  readonly #read = referenceReader(source => this.#rows[source])
  /** The keys of the rows of the last operation. */
  #keys: ReadonlyArray<FilledStatement['key']> = []
  #bytes = 0

  /** `sink`: takes the rows of the only operation. */
  constructor (batch: SeparateBatch, sink: RowSink | undefined) {
    this.#batch = batch
    this.#sink = sink
  }

  /**
   * Returns what is sent next. `parts`: the rows of each statement of the last operation, or the
   * number of its rows.
   */
  next (parts: readonly (readonly Buffer[])[]): Next {
    const { operations } = this.#batch.plan
    const last = operations[this.results.length]
    const raised = parts.length === 0 ? undefined : this.#take(last as PlanNode, parts)
    if (raised !== undefined) return this.#fail((last as PlanNode).index, raised)
    for (;;) {
      const index = this.results.length
      const node = operations[index]
      if (node === undefined) return { kind: 'end' }
      const next = this.#begin(node, index)
      if (next !== undefined) return next
    }
  }

  /** Fills an operation. Undefined: it is skipped, or has no rows to store. */
  #begin (node: PlanNode, index: number): Next | undefined {
    if (!this.#holds(node)) {
      this.#add(SKIPPED, [])
      const missing = this.#findMissing(index, 0)
      return missing && this.#fail(index, missing)
    }
    const absent = this.#findAbsent(index)
    if (absent !== undefined) return this.#fail(index, absent)
    const filled = this.#fill(index)
    if ('kind' in filled) return filled
    this.#keys = filled.map(({ key }) => key)
    const issue = node.kind === 'bulk_update' ? findKeyIssue(filled) : undefined
    if (issue !== undefined) return this.#fail(index, issue)
    const refused = filled.flatMap(({ statement: { refused = [] } }) =>
      refused.map((value): RefusedValue => ({ ...value, index })))
    if (refused.length > 0) {
      const refusal = { kind: 'values', values: refused, index } as const
      return { kind: 'failed', failed: { error: REFUSED, at: index, refusal } }
    }
    if (filled.length === 0) {
      const raised = this.#take(node, [])
      return raised && this.#fail(index, raised)
    }
    return { kind: 'operation', index, statements: filled.map(({ statement }) => statement) }
  }

  #fill (index: number): readonly FilledStatement[] | Next {
    try {
      return this.#batch.fill(index, reference => this.#valueOf(reference))
    } catch (error) {
      return { kind: 'failed', failed: { error: error as Failed['error'], at: index } }
    }
  }

  #valueOf (reference: Reference): Json {
    const value = this.#read(reference)
    // JSON of the database may have members that a request may not have, such as two with one name.
    if (value === undefined) {
      const { operations } = this.#batch.plan
      const { id } = operations[reference.source] as PlanNode
      throw failure('value_invalid', `The rows of "${id}" have JSON that cannot be referred to.`)
    }
    return value
  }

  #countOf (source: number): number {
    return (this.#rows[source] as Rows).length
  }

  #holds ({ when }: PlanNode): boolean {
    return when.every(({ source, rows: { min, max } }) => {
      const count = this.#countOf(source)
      return count >= min && count <= max
    })
  }

  /** Finds a row that an operation reads and that does not exist. */
  #findAbsent (index: number): RaisedError | undefined {
    const requirements = [...this.#batch.plan.requirements.get(index)?.values() ?? []]
    const missing = requirements.findIndex(({ anyOf }) =>
      !anyOf.some(({ reference, rows }) => this.#countOf(reference.source) >= rows))
    return missing < 0 ? undefined : { kind: 'absent', value: missing + 1 }
  }

  /** Takes the rows of an operation. Returns what is wrong with them. */
  #take (
    node: PlanNode,
    parts: readonly (readonly Buffer[])[]
  ): RaisedError | Twice | undefined {
    if (this.#sink !== undefined) {
      this.#add(Buffer.from(String(this.#sink.count)), [])
      return undefined
    }
    const { index, expect, output } = node
    const { plan, limits: { minimal, maxRows, maxChanged = maxRows, maxBytes } } = this.#batch
    const isRead = plan.referenceUses.has(index)
    const answersCount = answersOnlyCount(node, minimal)
    const isHidden = answersCount || output?.length === 0
    const isCounted = output?.length === 0 || (!isRead && answersCount)
    const counts = parts.map(cells => isCounted ? Number(String(cells[0])) : cells.length)
    const count = counts.reduce((sum, one) => sum + one, 0)
    const cells = parts.flat()
    if (node.kind === 'bulk_update' && counts.some(one => one > 1)) {
      return { kind: 'ambiguous', value: 0 }
    }
    if (node.kind === 'insert' && this.#affectsTwice(counts)) return { kind: 'twice', value: 0 }
    if (count > (isCounted ? maxChanged : maxRows)) return { kind: 'rows', value: 0 }
    if (expect !== undefined && (count < expect.min || count > expect.max)) {
      return { kind: 'expect', value: count }
    }
    const rows = isCounted ? { length: count, at: () => NO_COLUMNS } : rowsOfCells(cells)
    const missing = this.#findMissing(index, count) ?? this.#findColumn(index, rows)
    if (missing !== undefined) return missing
    const hidden = answersCount ? Buffer.from(String(count)) : NO_ROWS
    const result = isHidden ? hidden : joinRows(cells)
    if (!isHidden) this.#bytes += result.length
    if (this.#bytes > maxBytes) return { kind: 'bytes', value: 0 }
    this.#add(result, rows)
    return undefined
  }

  /** Whether a row of an insert has the key of one that was inserted or updated before. */
  #affectsTwice (counts: readonly number[]): boolean {
    const affected = new Set<string>()
    return this.#keys.some((key, i) => {
      if (key.length === 0 || key.some(([, value]) => value === null)) return false
      const text = textOfKey(key)
      if (affected.has(text)) return true
      if (counts[i] !== 0) affected.add(text)
      return false
    })
  }

  #add (result: Buffer, rows: Rows): void {
    this.results.push(result)
    this.#rows.push(rows)
  }

  /** Finds a row that later operations read and that does not exist, or lists that are too long. */
  #findMissing (index: number, count: number): RaisedError | undefined {
    const { plan: { referenceUses }, limits: { maxRows } } = this.#batch
    const uses = referenceUses.get(index) ?? []
    if (uses.some(({ rows, checked }) => checked && rows > count)) {
      return { kind: 'row', value: count }
    }
    return mayReadLists(listsRead(uses).length, count, maxRows)
      ? undefined
      : { kind: 'lists', value: count }
  }

  /** Finds a column that a later operation reads and that the rows do not have. */
  #findColumn (index: number, rows: Rows): RaisedError | undefined {
    const columns = columnsRead(this.#batch.plan.referenceUses.get(index) ?? [])
    const first = columns.length === 0 ? undefined : rows.at(0)
    // A row that cannot be read is found when a value of it is needed.
    if (first === undefined) return undefined
    const missing = columns.findIndex(column => !(isObject(first) && has(first, column)))
    return missing < 0 ? undefined : { kind: 'column', value: missing + 1 }
  }

  #fail (at: number, raised: RaisedError | Twice): Next {
    return raised.kind === 'twice'
      ? { kind: 'failed', failed: { error: SECOND_TIME, at } }
      : { kind: 'failed', failed: { error: REFUSED, at, raised } }
  }
}

/** A row is inserted or updated a second time. */
interface Twice {
  readonly kind: 'twice'
  readonly value: 0
}

/** As PostgreSQL refuses it. */
const SECOND_TIME = {
  code: SqlState.cardinality_violation,
  message: 'ON CONFLICT DO UPDATE command cannot affect row a second time'
}

const REFUSED = { code: SqlState.data_exception, message: 'The service refused the operation.' }

/** Finds a part of a key that is NULL, or a row with the key of an earlier one. */
function findKeyIssue (filled: readonly FilledStatement[]): RaisedError | undefined {
  const known = new Set<string>()
  for (const { key, row } of filled) {
    const column = key.find(([, value]) => value === null)?.[0]
    if (column !== undefined) {
      return { kind: 'value', value: 0, issue: { problem: 'key', path: [String(row), column] } }
    }
    const text = textOfKey(key)
    if (known.has(text)) return { kind: 'duplicate', value: row as number }
    known.add(text)
  }
  return undefined
}
