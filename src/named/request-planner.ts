/**
 * Plans the requests of a named batch. Those whose parameters differ only in values share a plan,
 * and so its statements.
 */
import { LRUCache } from 'lru-cache'
import type { Batch } from '../../schemas/batch.ts'
import { has, isObject, writeJson, type Json, type JsonObject } from '../json/parse.ts'
import { once, type PlannedBatch } from '../plan/batch-planner.ts'
import type { PlanLimits } from '../plan/context.ts'
import { shapeOf } from '../plan/document.ts'
import { keyOfPath, toPath } from '../plan/name.ts'
import type {
  ColumnPath,
  JsonShape,
  Parameter,
  ParameterRows,
  Plan,
  RowsDocument
} from '../plan/nodes.ts'
import { parameterValues } from '../plan/parameter.ts'
import { planBatch } from '../plan/plan-batch.ts'
import { isData } from '../plan/reference.ts'
import { isNested, leastCertain } from '../plan/stored-values.ts'
import type { ParameterFault, Parameters } from './parameters.ts'

/** Clients leave out the same members of rows, so a batch has few plans. */
const MAX_PLANS = 100

type Rows = readonly JsonObject[]
type RequestParameters = ReadonlyMap<string, Parameter>

export class RequestPlanner {
  /** The plan of the file, which shows what its operations are. */
  readonly outline: Plan
  readonly #operations: Batch
  readonly #limits: PlanLimits
  readonly #known: Parameters['known']
  /** The positions of the parameters whose values are rows. */
  readonly #rows: ReadonlySet<number>
  readonly #plans = new LRUCache<string, Plan>({ max: MAX_PLANS })

  /** Throws `validation_failed` with all issues of the operations. */
  constructor (operations: Batch, limits: PlanLimits, known: Parameters['known']) {
    this.#operations = operations
    this.#limits = limits
    this.#known = known
    this.outline = this.#plan(known)
    const { inserted, documents } = this.outline.usedRows
    this.#rows = new Set([...inserted, ...documents.map(({ parameter }) => parameter.position)])
  }

  /** Returns the faults of valid values: lists with more rows than an operation may have. */
  findFaults (values: readonly Json[]): readonly ParameterFault[] {
    const { maxRows } = this.#limits
    return [...this.#known].flatMap(([name, { position }]) => {
      const rows = this.#rows.has(position) ? (values[position] as Rows).length : 0
      const message = `"${name}" has ${rows} rows; at most ${maxRows} are allowed.`
      return rows > maxRows ? [{ path: [name], message }] : []
    })
  }

  /** Plans a request with valid values, by the positions of parameters. */
  plan (values: readonly Json[]): PlannedBatch {
    const documents = this.outline.usedRows.documents.map(({ parameter, fields }) =>
      (values[parameter.position] as Rows).map(row => readFields(row, fields))
    )
    const parameters = this.#describe(values, documents)
    return {
      outline: this.#findPlan(parameters),
      values: parameterValues([...values, ...documents]),
      plan: once(() => this.#plan(this.#withData(parameters, values))),
      named: true
    }
  }

  #plan (parameters: RequestParameters): Plan {
    return planBatch(this.#operations, this.#limits, parameters)
  }

  /** A plan is not kept if the rows of a parameter have different members. */
  #findPlan (parameters: RequestParameters): Plan {
    const all = [...parameters.values()]
    if (all.some(({ rows }) => rows?.data !== undefined)) return this.#plan(parameters)
    const key = JSON.stringify(
      all.map(({ shape, rows }) => rows === undefined ? shape : [rows.columns, [...rows.shapes]])
    )
    const plan = this.#plans.get(key) ?? this.#plan(parameters)
    this.#plans.set(key, plan)
    return plan
  }

  /** The parameters with what the plan depends on. */
  #describe (values: readonly Json[], documents: readonly Rows[]): RequestParameters {
    const { inserted, documents: planned } = this.outline.usedRows
    return new Map([...this.#known].map(([name, parameter]): readonly [string, Parameter] => {
      const { position } = parameter
      const value = values[position] as Json
      if (!this.#rows.has(position)) {
        return [name, { ...parameter, shape: shapeOfData(value), rows: undefined }]
      }
      const shapes = new Map(planned.flatMap(({ parameter, fields }, i) =>
        parameter.position === position ? shapesOfFields(documents[i] as Rows, fields) : []
      ))
      const known = parameter.rows as ParameterRows
      const isDescribed = inserted.has(position) && (value as Rows).length > 0
      // Of an empty list, the plan has all declared columns.
      const described = isDescribed ? describeRows(value as Rows) : { shapes: [] }
      for (const [key, shape] of described.shapes) shapes.set(key, shape)
      const rows = { ...known, ...described, shapes }
      return [name, { ...parameter, shape: 'object' as const, rows }]
    }))
  }

  /** The parameters with the rows themselves. */
  #withData (parameters: RequestParameters, values: readonly Json[]): RequestParameters {
    return new Map([...parameters].map(([name, parameter]) => {
      const { rows, position } = parameter
      if (rows === undefined) return [name, parameter]
      return [name, { ...parameter, rows: { ...rows, data: escapeRows(values[position] as Rows) } }]
    }))
  }
}

/** Describes rows that are inserted: they name the same columns, or they are given as they are. */
function describeRows (rows: Rows): Pick<ParameterRows, 'columns' | 'data'> & {
  readonly shapes: ReadonlyArray<readonly [string, JsonShape]>
} {
  const columns = Object.keys(rows[0] as JsonObject).toSorted()
  const isUniform = rows.every(row =>
    Object.keys(row).length === columns.length && columns.every(column => has(row, column))
  )
  return {
    columns,
    shapes: shapesOf(rows, columns.map(column => [column, toPath(column)])),
    data: isUniform && columns.length > 0 ? undefined : escapeRows(rows)
  }
}

function shapesOfFields (
  rows: Rows,
  fields: RowsDocument['fields']
): ReadonlyArray<readonly [string, JsonShape]> {
  return shapesOf(rows, fields.map(({ name, path }) => [name, path]))
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

function shapeOfData (value: Json): JsonShape {
  return isNested(value) ? shapeOf(escape(value)) : 'scalar'
}

function escapeRows (rows: Rows): Rows {
  return escape(rows) as Rows
}

/** Escapes strings that would be read as references. */
function escape (value: Json): Json {
  if (typeof value === 'string') return isData(value) ? value : `$${value}`
  if (Array.isArray(value)) return (value as readonly Json[]).map(escape)
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, escape(item)]))
}

/** The values of the fields of a row. A missing one is null. */
function readFields (row: JsonObject, fields: RowsDocument['fields']): JsonObject {
  return Object.fromEntries(fields.map(({ name, path }) => [name, readValue(row, path)]))
}

/** Reads a value as PostgreSQL does with `->` and `->>`. */
function readValue (row: JsonObject, { column, keys, resultType }: ColumnPath): Json {
  const value = [column, ...keys].reduce<Json>(readStep, row)
  if (resultType !== 'text' || value === null || typeof value === 'string') return value
  return writeJson(value)
}

/** A number is a position in an array, from its end if it is negative. */
function readStep (value: Json, key: string | number): Json {
  if (typeof key === 'number') {
    return Array.isArray(value) ? (value as readonly Json[]).at(key) ?? null : null
  }
  return isObject(value) && has(value, key) ? value[key] as Json : null
}
