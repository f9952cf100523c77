/**
 * A batch whose operations are sent one by one: the statements of each, filled when the rows of
 * those before it are known.
 */
import { isObject, writeJson, type Json, type JsonObject } from '../../json/parse.ts'
import { readNumber } from '../../plan/document.ts'
import type { Reference } from '../../plan/nodes.ts'
import type { Plan } from '../../plan/plan.ts'
import type { Input, SeparatePlan, Sending } from '../../plan/separate.ts'
import { ReadValue, type Values } from './slot.ts'
import { fillStatement, type CompiledStatement, type Statement } from './statement.ts'

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

interface SeparateBatchParts {
  readonly plan: Plan
  readonly separate: SeparatePlan
  /** The statements of the plan, compiled. */
  readonly compiled: readonly CompiledStatement[]
  /** The values of the batch. */
  readonly values: readonly Json[]
  readonly limits: BatchLimits
}

/** What the service limits while it sends the operations of a batch; see CompileOptions. */
export interface BatchLimits {
  readonly maxRows: number
  readonly maxChanged?: number | undefined
  readonly maxBytes: number
  readonly minimal?: boolean
}

export class SeparateBatch {
  readonly plan: Plan
  readonly limits: BatchLimits
  readonly #separate: SeparatePlan
  readonly #compiled: readonly CompiledStatement[]
  readonly #values: readonly Json[]

  constructor ({ plan, separate, compiled, values, limits }: SeparateBatchParts) {
    this.plan = plan
    this.limits = limits
    this.#separate = separate
    this.#compiled = compiled
    this.#values = values
  }

  /** Returns the statements of an operation, in the order in which they are sent. */
  fill (index: number, read: ReadReference): readonly FilledStatement[] {
    const sendings = this.#separate.operations[index] as readonly Sending[]
    return sendings.flatMap(sending => this.#fillOne(sending, read))
  }

  #fillOne (sending: Sending, read: ReadReference): readonly FilledStatement[] {
    const { inputs, rowsOf, key = NO_KEY, row } = sending
    const keyIn = (values: Values): FilledStatement['key'] =>
      Array.from(key, ([column, number]) => {
        const value = values[number] as Json | ReadValue
        return [column, value instanceof ReadValue ? value.json : value]
      })
    const given = inputs.map(input => this.#readInput(input, read))
    if (rowsOf !== undefined) {
      const rows = this.#values[rowsOf.position] as readonly JsonObject[]
      return rows.map((own, row) => {
        const values = [...rowsOf.columns.map(column => own[column] as Json), ...given]
        return { statement: this.#fillWith(sending, values, row), row, key: keyIn(values) }
      })
    }
    return [{ statement: this.#fillWith(sending, given, row), row, key: keyIn(given) }]
  }

  #fillWith ({ statement }: Sending, inputs: Values, row?: number): Statement {
    const compiled = this.#compiled[statement] as CompiledStatement
    return { ...fillStatement(compiled, [...this.#values, ...inputs]), row }
  }

  #readInput (input: Input, read: ReadReference): Json | ReadValue {
    switch (input.kind) {
      case 'literal':
        return input.position === undefined ? input.value : this.#values[input.position] as Json
      case 'reference':
        return input.parameter === undefined
          ? new ReadValue(read(input))
          : this.#values[input.parameter.position] as Json
      default:
        return replaceNumbers(input.value, number => {
          const reference = input.references[number] as Reference
          const value = this.#readInput(reference, read)
          return value instanceof ReadValue ? value.json : value
        })
    }
  }

  /**
   * Returns a statement for each operation, with NULL for what is not known yet: what it refuses
   * and whether it runs code.
   */
  foresee (): readonly Statement[] {
    return this.#separate.operations.map(sendings => {
      const all = sendings.flatMap(sending => this.#foreseeOne(sending))
      return {
        ...all[0] as Statement,
        refused: all.flatMap(({ refused = [], row }) =>
          refused.map(value => row === undefined ? value : { ...value, row })),
        runsCode: all.some(({ runsCode }) => runsCode === true)
      }
    })
  }

  /** Without rows of a parameter, that of a row of NULLs. */
  #foreseeOne (sending: Sending): readonly Statement[] {
    const filled = this.#fillOne(sending, () => null).map(({ statement }) => statement)
    if (filled.length > 0) return filled
    const { columns = [] } = sending.rowsOf ?? {}
    return [this.#fillWith(sending, [...columns, ...sending.inputs].map(() => null))]
  }
}

const NO_KEY: ReadonlyMap<string, number> = new Map()

/** Replaces the strings of JSON that stand for references. */
function replaceNumbers (value: Json, read: (number: number) => Json): Json {
  const number = readNumber(value)
  if (number !== undefined) return read(number)
  if (Array.isArray(value)) {
    return (value as readonly Json[]).map(item => replaceNumbers(item, read))
  }
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) =>
    [name, replaceNumbers(member, read)]))
}

/** The text by which two keys are the same. */
export function textOfKey (key: FilledStatement['key']): string {
  return writeJson(key.map(([, value]) => value))
}
