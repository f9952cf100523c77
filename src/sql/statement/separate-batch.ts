/**
 * A batch whose operations are sent one by one: the statements of each, filled when the rows of
 * those before it are known.
 */
import { fromDatabase } from '../../errors/postgres.ts'
import { SqlState } from '../../errors/sqlstates.ts'
import type { Type } from '../../catalogue/type.ts'
import { writeCanonically } from '../../json/canonical.ts'
import { canonicalDecimal, isNumberText, readDecimal } from '../../json/decimal.ts'
import { textOf, writeJson, type Json, type JsonObject } from '../../json/parse.ts'
import { readNumber, readWhole, replaceNumbers } from '../../plan/document.ts'
import type { PlanNode, Reference, TableName } from '../../plan/nodes.ts'
import type { Plan } from '../../plan/plan.ts'
import { isList } from '../../plan/reference.ts'
import type { SentRows, SeparatePlan, SeparateStatement, Sending } from '../../plan/separate.ts'
import { copyElement, copyElements, isJson, isNumeric } from '../../values/write.ts'
import { jsonOf, ReadValue, UNKNOWN, type RefusedHere, type Values } from './slot.ts'
import {
  fillStatement,
  type CompiledStatement,
  type Statement,
  type ToRow
} from './statement.ts'

/** Returns the value of a reference. */
export type ReadReference = (reference: Reference) => Json

/** A statement that is ready to be sent. */
export interface FilledStatement {
  readonly statement: Statement
  /** The position of its row in `values`; undefined: it is that of the whole operation. */
  readonly row: number | undefined
  /** The columns of the key of its row, each with a text that equal values share, or null. */
  readonly key: ReadonlyArray<readonly [column: string, text: string | null]>
}

type Key = NonNullable<SentRows['key']>

interface KeyColumn {
  readonly column: string
  readonly type: Type | undefined
}

export interface SeparateBatchParts {
  readonly plan: Plan
  /** The division of the plan, and its statements. */
  readonly compiled: {
    readonly separate: SeparatePlan
    readonly statements: readonly CompiledStatement[]
  }
  /** The values of the batch. */
  readonly values: readonly Json[]
  readonly limits: RowLimits
  /** Finds the columns of a key, with their types; none of a constraint that is not known. */
  readonly findKey: (table: TableName, key: Key) => readonly KeyColumn[]
}

/** How many rows a batch returns. */
export interface RowLimits {
  /** Maximum rows per operation. */
  readonly maxRows: number
  /** Maximum rows of an operation that returns none; `maxRows` by default. */
  readonly maxChanged?: number | undefined
  /** Maximum bytes of the rows of a response. */
  readonly maxBytes: number
  /** Returns the number of rows instead of the rows, for every operation. */
  readonly minimal?: boolean
}

export class SeparateBatch {
  readonly plan: Plan
  readonly limits: RowLimits
  readonly #parts: SeparateBatchParts

  constructor (parts: SeparateBatchParts) {
    this.plan = parts.plan
    this.limits = parts.limits
    this.#parts = parts
  }

  /** Returns the statements of an operation, in the order in which they are sent. */
  fill (index: number, read: ReadReference): readonly FilledStatement[] {
    const sendings = this.#parts.compiled.separate.operations[index] as readonly Sending[]
    const reader = new ValueReader(this.plan.operations[index] as PlanNode, read)
    return sendings.flatMap(sending => this.#fillOne(sending, reader))
      .toSorted(({ row: one = 0 }, { row: other = 0 }) => one - other)
  }

  /** `reader`: undefined if nothing is known yet. */
  #fillOne (
    { statement, sent, inputs }: Sending,
    reader?: ValueReader
  ): readonly FilledStatement[] {
    const fillInputs = (statements: number): Values => inputs.map(({ reference, uses }) =>
      this.#readValue(reference, reader, uses * statements))
    if (sent === undefined) {
      return [{ statement: this.#fillWith(statement, fillInputs(1)), row: undefined, key: [] }]
    }
    const { rows, positions, fields } = sent
    const { parameter } = readWhole(rows) ?? {}
    const list = (parameter === undefined
      ? rows.value
      : this.#parts.values[parameter.position]) as readonly JsonObject[]
    const given = fillInputs(list.length)
    const key = this.#keyOf(statement, sent)
    return list.map((object, i) => {
      const own = fields.map(({ name }) =>
        this.#readCell(object[name] as Json, rows.references, reader))
      const row = positions[i] ?? i
      return {
        statement: this.#fillWith(statement, [...own, ...given], row),
        row,
        key: key.map(({ column, number, type }) =>
          [column, writeKey(jsonOf(own[number] as Json | ReadValue), type)])
      }
    })
  }

  /** The columns of a key, with their numbers in the row; none if not all of them are there. */
  #keyOf (
    statement: number,
    { fields, key = [] }: SentRows
  ): ReadonlyArray<KeyColumn & { readonly number: number }> {
    const { plan } = this.#parts.compiled.separate.statements[statement] as SeparateStatement
    const { table } = plan.operations[0] as PlanNode
    const known = this.#parts.findKey(table, key).map(one =>
      ({ ...one, number: fields.findIndex(({ column }) => column === one.column) }))
    return known.every(({ number }) => number >= 0) ? known : []
  }

  #fillWith (statement: number, inputs: Values, row?: number): Statement {
    const compiled = this.#parts.compiled.statements[statement] as CompiledStatement
    const filled = fillStatement(compiled, [...this.#parts.values, ...inputs])
    if (row === undefined) return filled
    const { plan } = this.#parts.compiled.separate.statements[statement] as SeparateStatement
    const hasRows = plan.operations[0]?.kind === 'insert'
    // The places of an update of one row have no row yet. In an insert, those without one belong to
    // `on_conflict`, and to no row.
    const toRow: ToRow = place =>
      place.at === undefined && (place.row !== undefined || !hasRows) ? { ...place, row } : place
    return { ...filled, toRow, refused: filled.refused?.map(toRow) }
  }

  #readCell (
    cell: Json,
    references: readonly Reference[],
    reader: ValueReader | undefined
  ): Json | ReadValue {
    const number = readNumber(cell)
    if (number !== undefined) return this.#readValue(references[number] as Reference, reader)
    let isKnown = true
    const whole = replaceNumbers(cell, number => {
      const reference = references[number] as Reference
      const item = this.#readValue(reference, reader)
      isKnown &&= item !== UNKNOWN
      const value = jsonOf(item)
      return isList(reference) ? copyElements(value) : copyElement(value)
    })
    return isKnown ? whole : null
  }

  #readValue (
    reference: Reference,
    reader: ValueReader | undefined,
    uses = 1
  ): Json | ReadValue {
    const { parameter } = reference
    if (parameter !== undefined) return this.#parts.values[parameter.position] as Json
    if (reader === undefined) return UNKNOWN
    const value = reader.read(reference, uses)
    return new ReadValue(isList(reference) ? copyElements(value) : value)
  }

  /**
   * Returns a statement for each operation, with NULL for what is not known yet: what it refuses
   * and whether it runs code.
   */
  foresee (): readonly Statement[] {
    return this.#parts.compiled.separate.operations.map(sendings => {
      const all = sendings.flatMap(sending => this.#foreseeOne(sending))
      return {
        ...all[0] as Statement,
        refused: refusedBy(all),
        runsCode: all.some(({ runsCode }) => runsCode === true)
      }
    })
  }

  /** If a parameter has no rows, returns the statement of a row of NULLs. */
  #foreseeOne (sending: Sending): readonly Statement[] {
    const filled = this.#fillOne(sending).map(({ statement }) => statement)
    if (filled.length > 0) return filled
    const { statement, sent, inputs } = sending
    const { fields } = sent as SentRows
    return [this.#fillWith(statement, [...fields, ...inputs].map(() => null))]
  }
}

/** What the statements of an operation refuse. Each has the values that belong to no row. */
export function refusedBy (statements: readonly Statement[]): readonly RefusedHere[] {
  return statements.flatMap(({ refused = [] }, i) =>
    refused.filter(({ row }) => i === 0 || row !== undefined))
}

/**
 * Maximum characters of the values that an operation takes from earlier ones. All of its statements
 * are filled before the first is sent: 10 000 rows that refer to a text of 1 MB would take 10 GB.
 */
const MAX_CHARACTERS = 32 * 1024 * 1024

/** Reads the values that an operation takes from earlier ones. */
class ValueReader {
  readonly #node: PlanNode
  readonly #read: ReadReference
  /** The characters of values, which many rows can refer to. */
  readonly #lengths = new Map<Reference, number>()
  #characters = 0

  constructor (node: PlanNode, read: ReadReference) {
    this.#node = node
    this.#read = read
  }

  /** Throws `program_limit_exceeded` if all values so far, with their `uses`, are too long. */
  read (reference: Reference, uses: number): Json {
    const value = this.#read(reference)
    const length = this.#lengths.get(reference) ?? writeJson(value).length
    this.#lengths.set(reference, length)
    this.#characters += uses * length
    if (this.#characters > MAX_CHARACTERS) {
      const { id: op, index } = this.#node
      const message = `The values of earlier operations in "${op}" have more than ` +
        `${MAX_CHARACTERS} characters. Divide its rows among several batches.`
      throw fromDatabase({ code: SqlState.program_limit_exceeded, message }, { op, index })
    }
    return value
  }
}

/** Returns a text that equal values of a type share; null for NULL. */
function writeKey (value: Json, type: Type | undefined): string | null {
  if (value === null) return null
  if (isJson(type)) return writeCanonically(value)
  const text = textOf(value)
  return isNumeric(type) && isNumberText(text) ? canonicalDecimal(readDecimal(text)) : text
}

/** The text by which two keys are the same. */
export function textOfKey (key: FilledStatement['key']): string {
  return JSON.stringify(key.map(([, text]) => text))
}
