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
  refusedBy,
  textOfKey,
  type FilledStatement,
  type SeparateBatch
} from '../sql/statement/separate-batch.ts'
import { columnsRead, listsRead, mayReadLists } from '../sql/statement/shared-results.ts'
import type { RefusedValue } from '../sql/statement/slot.ts'
import type { Statement } from '../sql/statement/statement.ts'
import { joinRows, type Answers } from './answers.ts'
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
type SequenceFailure = Problem & Pick<Failed, 'at'>

/** What is wrong with an operation. */
type Problem = Pick<Failed, 'error' | 'raised' | 'refusal'>

const SKIPPED = Buffer.from('null')
const NO_ROWS = Buffer.from('[]')
/** A row of `"returning": []`. */
const NO_COLUMNS: Json = {}

export class Sequence {
  readonly #batch: SeparateBatch
  readonly #answers: Answers
  readonly #sink: RowSink | undefined
  /** The rows that later operations read. */
  readonly #rows: Rows[] = []
  readonly #read = referenceReader(source => this.#rows[source])
  /** The keys of the rows of the last operation. */
  #keys: ReadonlyArray<FilledStatement['key']> = []
  #bytes = 0

  /** `answers`: gets the result of each operation. `sink`: takes the rows of the only one. */
  constructor (batch: SeparateBatch, answers: Answers, sink: RowSink | undefined) {
    this.#batch = batch
    this.#answers = answers
    this.#sink = sink
  }

  /** Returns what is sent next, after the answers to the last operation. */
  next (): Next {
    const { operations } = this.#batch.plan
    const parts = this.#answers.takeParts()
    const last = operations[this.#rows.length]
    const problem = parts.length === 0 ? undefined : this.#take(last as PlanNode, parts)
    if (problem !== undefined) return fail((last as PlanNode).index, problem)
    for (;;) {
      const index = this.#rows.length
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
      return missing && fail(index, missing)
    }
    const absent = this.#findAbsent(index)
    if (absent !== undefined) return fail(index, absent)
    const filled = this.#fill(index)
    if ('error' in filled) return fail(index, filled)
    this.#keys = filled.map(({ key }) => key)
    const issue = node.kind === 'bulk_update' ? findKeyIssue(filled) : undefined
    if (issue !== undefined) return fail(index, issue)
    const refused = refusedBy(filled.map(({ statement }) => statement))
      .map((value): RefusedValue => ({ ...value, index }))
    if (refused.length > 0) {
      return fail(index, { error: REFUSED, refusal: { kind: 'values', values: refused, index } })
    }
    if (filled.length === 0) {
      const problem = this.#take(node, [])
      return problem && fail(index, problem)
    }
    return { kind: 'operation', index, statements: filled.map(({ statement }) => statement) }
  }

  #fill (index: number): readonly FilledStatement[] | Problem {
    try {
      return this.#batch.fill(index, reference => this.#valueOf(reference))
    } catch (error) {
      return { error: error as Failed['error'] }
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
  #findAbsent (index: number): Problem | undefined {
    const requirements = [...this.#batch.plan.requirements.get(index)?.values() ?? []]
    const missing = requirements.findIndex(({ anyOf }) =>
      !anyOf.some(({ reference, rows }) => this.#countOf(reference.source) >= rows))
    return missing < 0 ? undefined : raise('absent', missing + 1)
  }

  /** Takes the rows of an operation. Returns what is wrong with them. */
  #take (node: PlanNode, parts: readonly (readonly Buffer[])[]): Problem | undefined {
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
    if (node.kind === 'bulk_update' && counts.some(one => one > 1)) return raise('ambiguous')
    if (node.kind === 'insert' && this.#affectsTwice(counts)) return { error: SECOND_TIME }
    if (count > (isCounted ? maxChanged : maxRows)) return raise('rows')
    if (expect !== undefined && (count < expect.min || count > expect.max)) {
      return raise('expect', count)
    }
    const rows = isCounted ? { length: count, at: () => NO_COLUMNS } : rowsOfCells(cells)
    const missing = this.#findMissing(index, count) ?? this.#findColumn(index, rows)
    if (missing !== undefined) return missing
    const hidden = answersCount ? Buffer.from(String(count)) : NO_ROWS
    const result = isHidden ? hidden : joinRows(cells)
    if (!isHidden) this.#bytes += result.length
    if (this.#bytes > maxBytes) return raise('bytes')
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
    this.#answers.add(result)
    this.#rows.push(rows)
  }

  /** Finds a row that later operations read and that does not exist, or lists that are too long. */
  #findMissing (index: number, count: number): Problem | undefined {
    const { plan: { referenceUses }, limits: { maxRows } } = this.#batch
    const uses = referenceUses.get(index) ?? []
    if (uses.some(({ rows, checked }) => checked && rows > count)) {
      return raise('row', count)
    }
    return mayReadLists(listsRead(uses).length, count, maxRows) ? undefined : raise('lists', count)
  }

  /** Finds a column that a later operation reads and that the rows do not have. */
  #findColumn (index: number, rows: Rows): Problem | undefined {
    const columns = columnsRead(this.#batch.plan.referenceUses.get(index) ?? [])
    const first = columns.length === 0 ? undefined : rows.at(0)
    // A row that cannot be read is found when a value of it is needed.
    if (first === undefined) return undefined
    const missing = columns.findIndex(column => !(isObject(first) && has(first, column)))
    return missing < 0 ? undefined : raise('column', missing + 1)
  }
}

function fail (at: number, problem: Problem): Next {
  return { kind: 'failed', failed: { ...problem, at } }
}

function raise (kind: RaisedError['kind'], value = 0, issue?: RaisedError['issue']): Problem {
  return { error: REFUSED, raised: { kind, value, ...issue && { issue } } }
}

/** The error of PostgreSQL for such rows in one statement. */
const SECOND_TIME = {
  code: SqlState.cardinality_violation,
  message: 'ON CONFLICT DO UPDATE command cannot affect row a second time'
}

const REFUSED = { code: SqlState.data_exception, message: 'The service refused the operation.' }

const KEY_ISSUE = { problem: 'key', path: [] } as const

/** Finds a part of a key that is NULL, or a row with the key of an earlier one. */
function findKeyIssue (filled: readonly FilledStatement[]): Problem | undefined {
  const known = new Set<string>()
  for (const { key, row } of filled) {
    const column = key.find(([, value]) => value === null)?.[0]
    if (column !== undefined) {
      return raise('value', 0, { column, row, isCompared: true, issue: KEY_ISSUE })
    }
    const text = textOfKey(key)
    if (known.has(text)) return raise('duplicate', row)
    known.add(text)
  }
  return undefined
}
