/**
 * Plans the requests of a named batch. They share a plan, and so its statements, unless they insert
 * rows that name other columns.
 */
import { LRUCache } from 'lru-cache'
import type { Batch } from '../../schemas/batch.ts'
import { has, type Json, type JsonObject } from '../json/parse.ts'
import type { PlanLimits } from '../plan/context.ts'
import type { Parameter, ParameterRows, RowsParameter } from '../plan/parameter.ts'
import type { Plan } from '../plan/plan.ts'
import { planBatch, planBytes, type PlannedBatch } from '../plan/plan-batch.ts'
import { listOfRows, type MembersByPosition } from '../values/rows.ts'
import type { Parameters } from './parameters.ts'
import { readFields, RowCollector, type CollectedRows } from './rows.ts'
import type { PathIssue } from './issues.ts'

/**
 * The plans of several named batches, by the name of a batch and what else they depend on. Clients
 * leave out the same members of rows, so a batch has few plans.
 */
export class PlanCache extends LRUCache<string, Plan> {
  constructor () {
    super({ maxSize: 40 * 1024 * 1024 })
  }
}

/** Maximum length of a key that is kept. A longer one, of hundreds of columns, hardly recurs. */
const MAX_KEY_LENGTH = 8192

type Rows = readonly JsonObject[]

export class RequestPlanner {
  /** The plan of the file, which shows what its operations are. */
  readonly planOfFile: Plan
  readonly #operations: Batch
  readonly #limits: PlanLimits
  readonly #known: Parameters['known']
  /** The names and positions of the parameters whose values are rows. */
  readonly #rowParameters: ReadonlyArray<readonly [name: string, position: number]>
  readonly #name: string
  readonly #plans: PlanCache
  /** Characters of the operations. */
  readonly #length: number

  /** Throws `validation_failed` with all issues of the operations. */
  constructor (
    { name, operations }: { readonly name: string, readonly operations: Batch },
    limits: PlanLimits,
    { known, plans }: { readonly known: Parameters['known'], readonly plans: PlanCache }
  ) {
    this.#name = name
    this.#plans = plans
    this.#operations = operations
    this.#length = JSON.stringify(operations).length
    this.#limits = limits
    this.#known = known
    this.planOfFile = this.#plan(known)
    const { inserted, documents } = this.planOfFile.usedRows
    const rows = new Set([...inserted, ...documents.map(({ parameter }) => parameter.position)])
    const all = Array.from(known, ([name, { position }]) => [name, position] as const)
    this.#rowParameters = all.filter(([, position]) => rows.has(position))
  }

  /** The names of the parameters whose values are rows. */
  get rowParameters (): readonly string[] {
    return this.#rowParameters.map(([name]) => name)
  }

  /** Whether an operation also uses rows as a value, such as a list that is stored. */
  get usesRowsAsValue (): boolean {
    const { values } = this.planOfFile.usedRows
    return this.#rowParameters.some(([, position]) => values.has(position))
  }

  /** Returns the issues of valid values: lists with more rows than an operation may have. */
  findIssues (values: readonly Json[]): readonly PathIssue[] {
    const { maxRows } = this.#limits
    return this.#rowParameters.flatMap(([name, position]) => {
      const rows = (values[position] as Rows).length
      const message = `"${name}" has ${rows} rows; at most ${maxRows} are allowed.`
      return rows > maxRows ? [{ path: [name], message }] : []
    })
  }

  /** Plans a request with valid values, by the positions of parameters. */
  plan (values: readonly Json[]): PlannedBatch {
    const documents = this.planOfFile.usedRows.documents.map(({ parameter, fields }) =>
      (values[parameter.position] as Rows).map(row => readFields(row, fields))
    )
    return {
      ...this.#findPlan(({ position, rows }) => {
        const inserted = values[position] as Rows
        // For an empty list, the plan has all declared columns.
        return inserted.length === 0 ? rows : { ...rows, ...describeRows(inserted) }
      }),
      values: documents.length === 0 ? values : [...values, ...documents]
    }
  }

  /**
   * Collects the rows of an upload, which are those of the only parameter with rows. `members`:
   * those of the rows that statements take, by the positions of the rows.
   */
  collectRows (members: MembersByPosition): RowCollector {
    const { inserted, documents } = this.planOfFile.usedRows
    const [position] = inserted
    return new RowCollector(
      documents.map((document, i) => ({
        ...document,
        members: members.get(this.#known.size + i) ?? []
      })),
      position === undefined ? undefined : members.get(position) ?? []
    )
  }

  /** Plans an upload. `values`: those of all parameters, in which the rows do not matter. */
  planUpload (values: readonly Json[], rows: CollectedRows): PlannedBatch {
    const [[, position] = []] = this.#rowParameters
    const { columns } = rows
    const own = values.map((value, i) => i === position ? listOfRows(rows.rows) : value)
    return {
      ...this.#findPlan(known => ({ ...known.rows, ...columns !== undefined && { columns } })),
      values: [...own, ...rows.documents.map(listOfRows)],
      maxChanged: this.#limits.maxUploadRows as number
    }
  }

  #plan (parameters: ReadonlyMap<string, Parameter>): Plan {
    return planBatch(this.#operations, this.#limits, { parameters })
  }

  /**
   * Finds the plan for rows that are inserted, which depends on their columns. It is not kept if
   * they have different members. `describe`: returns what is known about the rows of a parameter.
   */
  #findPlan (
    describe: (parameter: RowsParameter) => ParameterRows
  ): Pick<PlannedBatch, 'plan' | 'isKept'> {
    const { inserted } = this.planOfFile.usedRows
    if (inserted.size === 0) return { plan: this.planOfFile, isKept: true }
    const described = new Map([...this.#known].flatMap(([name, parameter]) => {
      if (!inserted.has(parameter.position)) return []
      const rows = describe(parameter as RowsParameter)
      return [[name, { ...parameter, rows }] as const]
    }))
    const parameters = new Map([...this.#known, ...described])
    const all = [...described.values()]
    const key = JSON.stringify([this.#name, ...all.map(({ rows }) => rows.columns)])
    if (key.length > MAX_KEY_LENGTH || all.some(({ rows }) => rows.data !== undefined)) {
      return { plan: this.#plan(parameters), isKept: false }
    }
    const plan = this.#plans.get(key) ?? this.#plan(parameters)
    this.#plans.set(key, plan, { size: planBytes(this.#length + key.length) })
    return { plan, isKept: true }
  }
}

/**
 * Describes rows that are inserted: by their columns if all rows name the same ones, otherwise by
 * the rows themselves.
 */
function describeRows (rows: Rows): Pick<ParameterRows, 'columns' | 'data'> {
  const columns = Object.keys(rows[0] as JsonObject).toSorted()
  const isUniform = rows.every(row =>
    Object.keys(row).length === columns.length && columns.every(column => has(row, column))
  )
  return { columns, data: isUniform && columns.length > 0 ? undefined : rows }
}
