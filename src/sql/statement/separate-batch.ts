/**
 * A batch whose operations are sent one by one: the statements of each, filled when the rows of
 * those before it are known.
 */
import { writeJson, type Json, type JsonObject } from '../../json/parse.ts'
import { replaceNumbers } from '../../plan/document.ts'
import type { Cell, PlanNode, Reference, TableName } from '../../plan/nodes.ts'
import type { Plan } from '../../plan/plan.ts'
import { isList } from '../../plan/reference.ts'
import type { SeparatePlan, SeparateStatement, Sending } from '../../plan/separate.ts'
import { copyElement } from '../../values/write.ts'
import { jsonOf, ReadValue, type Values } from './slot.ts'
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
  /** The values of the key of its row, by column. */
  readonly key: ReadonlyArray<readonly [column: string, value: Json]>
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
  /** Finds the columns of a unique constraint; none if they are not known. */
  readonly findKey: (table: TableName, constraint: string) => readonly string[]
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
    return sendings.flatMap(sending => this.#fillOne(sending, read))
  }

  #fillOne (sending: Sending, read: ReadReference): readonly FilledStatement[] {
    const { inputs, rowsOf, columns = [], row } = sending
    const key = this.#keyOf(sending).map(column => [column, columns.indexOf(column)] as const)
    const keyIn = (values: Values): FilledStatement['key'] =>
      key.map(([column, number]) => [column, jsonOf(values[number] as Json | ReadValue)])
    const given = inputs.map(input => this.#readInput(input, read))
    if (rowsOf !== undefined) {
      const rows = this.#parts.values[rowsOf] as readonly JsonObject[]
      return rows.map((own, row) => {
        const values = [...columns.map(column => own[column] as Json), ...given]
        return { statement: this.#fillWith(sending, values, row), row, key: keyIn(values) }
      })
    }
    return [{ statement: this.#fillWith(sending, given, row), row, key: keyIn(given) }]
  }

  /** The columns of a key; none if not all of them are known to be in the rows. */
  #keyOf ({ statement, columns = [], key = [] }: Sending): readonly string[] {
    const { plan } = this.#parts.compiled.separate.statements[statement] as SeparateStatement
    const { table } = plan.operations[0] as PlanNode
    const known = 'constraint' in key ? this.#parts.findKey(table, key.constraint) : key
    return known.every(column => columns.includes(column)) ? known : []
  }

  #fillWith ({ statement }: Sending, inputs: Values, row?: number): Statement {
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

  #readInput (input: Cell, read: ReadReference): Json | ReadValue {
    switch (input.kind) {
      case 'literal':
        return input.position === undefined
          ? input.value
          : this.#parts.values[input.position] as Json
      case 'reference':
        return input.parameter === undefined
          ? new ReadValue(isList(input) ? copyElements(read(input)) : read(input))
          : this.#parts.values[input.parameter.position] as Json
      default:
        return replaceNumbers(input.value, number => {
          const reference = input.references[number] as Reference
          const value = jsonOf(this.#readInput(reference, read))
          return isList(reference) ? copyElements(value) : copyElement(value)
        })
    }
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
        refused: all.flatMap(({ refused = [] }) => refused),
        runsCode: all.some(({ runsCode }) => runsCode === true)
      }
    })
  }

  /** If a parameter has no rows, returns the statement of a row of NULLs. */
  #foreseeOne (sending: Sending): readonly Statement[] {
    const filled = this.#fillOne(sending, () => null).map(({ statement }) => statement)
    if (filled.length > 0) return filled
    const { columns = [], inputs } = sending
    return [this.#fillWith(sending, [...columns, ...inputs].map(() => null))]
  }
}

/** Copies a list whose items are elements of an array; see copyElement. */
function copyElements (value: Json): Json {
  return Array.isArray(value) ? (value as readonly Json[]).map(copyElement) : value
}

/** The text by which two keys are the same. */
export function textOfKey (key: FilledStatement['key']): string {
  return writeJson(key.map(([, value]) => value))
}
