/**
 * Plans the requests of a named batch. Those whose parameters differ only in values share a plan,
 * and so its statements.
 */
import { LRUCache } from 'lru-cache'
import type { Batch } from '../../schemas/batch.ts'
import { has, isNested, type Json, type JsonObject } from '../json/parse.ts'
import type { PlanLimits } from '../plan/context.ts'
import { keyOfPath, toPath } from '../plan/name.ts'
import type { ColumnPath } from '../plan/nodes.ts'
import type { JsonShape, Parameter, ParameterRows } from '../plan/shape.ts'
import type { Plan } from '../plan/plan.ts'
import {
  planBatch,
  planBytes,
  type PlannedBatch
} from '../plan/plan-batch.ts'
import { isOperationId } from '../plan/reference.ts'
import { leastCertain } from '../plan/stored-values.ts'
import { listOfRows, type MembersByPosition } from '../values/rows.ts'
import type { Parameters } from './parameters.ts'
import {
  escapeRows,
  hasOnlyScalars,
  readFields,
  RowCollector,
  shapeOfData,
  type CollectedRows
} from './rows.ts'
import type { PathIssue } from './schema-parts.ts'

/**
 * The plans of several named batches, by the name of a batch and what else they depend on. Clients
 * leave out the same members of rows, so a batch has few plans.
 */
export class PlanCache extends LRUCache<string, KeptPlan> {
  constructor () {
    super({
      maxSize: 8 * 1024 * 1024,
      sizeCalculation: ({ length }, key) => planBytes(length + key.length)
    })
  }
}

interface KeptPlan {
  readonly plan: Plan
  /** Characters of the operations. */
  readonly length: number
}

/** Maximum length of a key that is kept. A longer one, of hundreds of columns, hardly recurs. */
const MAX_KEY_LENGTH = 8192

type Rows = readonly JsonObject[]
type RequestParameters = ReadonlyMap<string, Parameter>

export class RequestPlanner {
  /** The plan of the file, which shows what its operations are. */
  readonly planOfFile: Plan
  readonly #operations: Batch
  readonly #limits: PlanLimits
  readonly #known: Parameters['known']
  /** The positions of the parameters whose values are rows. */
  readonly #rows: ReadonlySet<number>
  /** The names and positions of these parameters. */
  readonly #rowParameters: ReadonlyArray<readonly [name: string, position: number]>
  /** The positions of the other parameters. */
  readonly #others: readonly number[]
  readonly #name: string
  readonly #plans: PlanCache
  readonly #length: number
  readonly #ids: ReadonlySet<string>
  readonly #isId = (name: string): boolean =>
    isOperationId(name, { parameters: this.#known, ids: this.#ids })

  /** Throws `validation_failed` with all issues of the operations. */
  constructor (
    { name, operations }: { readonly name: string, readonly operations: Batch },
    limits: PlanLimits,
    { known, plans }: { readonly known: Parameters['known'], readonly plans: PlanCache }
  ) {
    this.#name = name
    this.#plans = plans
    this.#operations = operations
    this.#ids = new Set(operations.map(({ id }) => id))
    this.#length = JSON.stringify(operations).length
    this.#limits = limits
    this.#known = known
    this.planOfFile = this.#plan(known)
    const { inserted, documents } = this.planOfFile.usedRows
    this.#rows = new Set([...inserted, ...documents.map(({ parameter }) => parameter.position)])
    const all = Array.from(known, ([name, { position }]) => [name, position] as const)
    this.#rowParameters = all.filter(([, position]) => this.#rows.has(position))
    this.#others = all.flatMap(([, position]) => this.#rows.has(position) ? [] : [position])
  }

  /** The names of the parameters whose values are rows. */
  get rowParameters (): readonly string[] {
    return this.#rowParameters.map(([name]) => name)
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
    const all = documents.length === 0 ? values : [...values, ...documents]
    if (this.#hasOnlyScalars(values, documents)) {
      return { plan: this.planOfFile, values: all, isKept: true }
    }
    return { ...this.#findPlan(this.#describe(values, documents)), values: all }
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
    const { shapes, columns } = rows
    const [position] = this.#rows
    const parameters = this.#describeWith(values, (_, known) =>
      ({ ...known, shapes, columns: columns ?? known.columns }))
    const own = values.map((value, i) => i === position ? listOfRows(rows.rows) : value)
    return {
      ...this.#findPlan(parameters),
      values: [...own, ...rows.documents.map(listOfRows)],
      maxChanged: this.#limits.maxUploadRows as number
    }
  }

  /**
   * Whether the plan of the file is that of a request: no rows are inserted, whose columns differ,
   * and every value that is read is a scalar.
   */
  #hasOnlyScalars (values: readonly Json[], documents: readonly Rows[]): boolean {
    return this.planOfFile.usedRows.inserted.size === 0 &&
      this.#others.every(position => !isNested(values[position] as Json)) &&
      documents.every(rows => rows.every(hasOnlyScalars))
  }

  #plan (parameters: RequestParameters): Plan {
    return planBatch(this.#operations, this.#limits, { parameters })
  }

  /** A plan is not kept if the rows of a parameter have different members. */
  #findPlan (parameters: RequestParameters): Pick<PlannedBatch, 'plan' | 'isKept'> {
    const all = [...parameters.values()]
    const key = JSON.stringify([
      this.#name,
      ...all.map(({ shape, rows }) => rows === undefined ? shape : [rows.columns, [...rows.shapes]])
    ])
    if (key.length > MAX_KEY_LENGTH || all.some(({ rows }) => rows?.data !== undefined)) {
      return { plan: this.#plan(parameters), isKept: false }
    }
    const plan = this.#plans.get(key)?.plan ?? this.#plan(parameters)
    this.#plans.set(key, { plan, length: this.#length })
    return { plan, isKept: true }
  }

  /** Returns the parameters with everything that the plan depends on. */
  #describe (values: readonly Json[], documents: readonly Rows[]): RequestParameters {
    return this.#describeWith(values, (position, known) =>
      this.#describeRows({ position, known }, values, documents))
  }

  #describeWith (
    values: readonly Json[],
    describeRows: (position: number, known: ParameterRows) => ParameterRows
  ): RequestParameters {
    return new Map([...this.#known].map(([name, parameter]): readonly [string, Parameter] => {
      const { position } = parameter
      if (!this.#rows.has(position)) {
        const shape = shapeOfData(values[position] as Json)
        return [name, { ...parameter, shape, rows: undefined }]
      }
      const rows = describeRows(position, parameter.rows as ParameterRows)
      return [name, { ...parameter, shape: 'object' as const, rows }]
    }))
  }

  #describeRows (
    { position, known }: { readonly position: number, readonly known: ParameterRows },
    values: readonly Json[],
    documents: readonly Rows[]
  ): ParameterRows {
    const { inserted, documents: planned } = this.planOfFile.usedRows
    const rows = values[position] as Rows
    const shapes = new Map(planned.flatMap(({ parameter, fields }, i) =>
      parameter.position === position
        ? shapesOf(documents[i] as Rows, fields.map(({ name, path }) => [name, path]))
        : []
    ))
    const isDescribed = inserted.has(position) && rows.length > 0
    // For an empty list, the plan has all declared columns.
    const described = isDescribed ? describeRows(rows, this.#isId) : { shapes: [] }
    for (const [key, shape] of described.shapes) shapes.set(key, shape)
    return { ...known, ...described, shapes }
  }
}

/**
 * Describes rows that are inserted: by their columns if all rows name the same ones, otherwise by
 * the rows themselves.
 */
function describeRows (
  rows: Rows,
  isId: (name: string) => boolean
): Pick<ParameterRows, 'columns' | 'data'> & {
  readonly shapes: ReadonlyArray<readonly [string, JsonShape]>
} {
  const columns = Object.keys(rows[0] as JsonObject).toSorted()
  const isUniform = rows.every(row =>
    Object.keys(row).length === columns.length && columns.every(column => has(row, column))
  )
  return {
    columns,
    shapes: shapesOf(rows, columns.map(column => [column, toPath(column)])),
    data: isUniform && columns.length > 0 ? undefined : escapeRows(rows, isId)
  }
}

/** The least certain shapes of members, if they are no scalars, by the keys of `paths`. */
function shapesOf (
  rows: Rows,
  paths: ReadonlyArray<readonly [member: string, path: ColumnPath]>
): ReadonlyArray<readonly [string, JsonShape]> {
  return paths.flatMap(([member, path]) => {
    const shape = rows.reduce<JsonShape>(
      (found, row) => leastCertain(found, shapeOfData(row[member] ?? null)),
      'scalar'
    )
    return shape === 'scalar' ? [] : [[keyOfPath(path), shape] as const]
  })
}
