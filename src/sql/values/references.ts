/**
 * Reads what earlier operations share in settings of the transaction (see shared-results.ts).
 * Chains of references therefore need no additional round trip.
 */
import { TypeOid } from '../../catalogue/built-in.ts'
import {
  constant,
  identifier,
  integer,
  parameter,
  sharedParameter,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type { OutputColumn, Reference } from '../../plan/nodes.ts'
import type { Plan } from '../../plan/plan.ts'
import { isAllColumns, isUnchanged } from '../../plan/output.ts'
import { jsonOfParameter, textOfParameter } from '../../plan/fingerprint.ts'
import {
  buildExistenceCheck,
  columnsRead,
  keyIn,
  readShared,
  sharedElements,
  sharedOf,
  type SharedResult,
  type SharedResults
} from '../statement/shared-results.ts'
import { buildFirst } from '../statement/when.ts'
import type { FindColumns, TypeCheck } from './column-types.ts'
import type { StatementNeeds } from './statement-needs.ts'
import { isHstore, isJsonType, type ColumnType } from './value-type.ts'

/** A shared column of which all values are scalars, of one type; undefined: hstore. */
export interface Scalar {
  readonly type: ColumnType | undefined
  /** What checks that it has this type. */
  readonly check: TypeCheck
}

/** The shared columns of scalars, by operation. */
type Scalars = ReadonlyMap<number, ReadonlyMap<string, Scalar>>

/** What a statement needs to know about earlier operations. */
export interface Earlier {
  readonly results: SharedResults
  readonly scalars: Scalars
  /** See findSeparate. */
  readonly separate: ReadonlySet<number>
}

/** Finds the columns of scalars that operations share: those that they return unchanged. */
export function findScalars (
  { operations, referenceUses }: Plan,
  findColumns: FindColumns
): Scalars {
  return new Map([...referenceUses].map(([index, uses]) => {
    // A plan of one operation, for `oneflight check`, refers to operations that it lacks.
    const node = operations[index]
    const isTable = node?.index === index && node.kind !== 'call'
    const columns = isTable ? findColumns(node.table) : undefined
    const found = new Map<string, Scalar>()
    if (columns === undefined) return [index, found]
    const columnOf = readOutput(node?.output)
    for (const name of columnsRead(uses)) {
      const column = columnOf(name) ?? ''
      const { type, check, tree } = columns.get(column) ?? {}
      if (type === undefined ? !isHstore(tree) : isJsonType(type)) continue
      found.set(name, { type, check: check as TypeCheck })
    }
    return [index, found]
  }))
}

/** Finds the column of the table that an output column returns unchanged. */
function readOutput (
  output: readonly OutputColumn[] | undefined
): (name: string) => string | undefined {
  if (output === undefined) return name => name
  const hasAll = output.some(isAllColumns)
  // Both lists come from the client.
  const byName = new Map(output.map(column => [column.name, column]))
  return name => {
    const found = byName.get(name)
    if (found === undefined) return hasAll ? name : undefined
    return isUnchanged(found) && found.path.resultType === 'column' ? found.path.column : undefined
  }
}

/** Whether its values depend on the time zone in which they are read. */
function isZoned ({ oid }: ColumnType): boolean {
  return oid === TypeOid.timestamptz || oid === TypeOid.timetz
}

/** How a reference is read. */
interface ReadOptions {
  /** Reading it shows whether its row exists. */
  readonly checked?: boolean
  /** It is read as JSON, and so may be a list or a row. */
  readonly json?: boolean
}

/**
 * Maximum number of elements that a statement reads directly, which parses the text of the setting
 * each time. Further ones are read from a CTE, which parses it once.
 */
const MAX_DIRECT_READS = 16

export class References {
  readonly #earlier: Earlier
  readonly #needs: StatementNeeds
  /** Parameters with the names of settings. */
  readonly #settings = new Map<string, Fragment>()
  /** Names of the CTEs with the elements of shared results. */
  readonly #sources = new Map<SharedResult, string>()
  /** See readAsHstore. */
  readonly #hstores = new Set<Reference>()
  /** A setting of each operation whose readers check that its row exists. */
  readonly #unchecked = new Map<number, Fragment>()
  /** The elements that were read from the text of a setting. */
  #reads = 0

  constructor (earlier: Earlier, needs: StatementNeeds) {
    this.#earlier = earlier
    this.#needs = needs
  }

  /** Whether the statement reads settings of earlier operations. */
  get readsSettings (): boolean {
    return this.#settings.size > 0 || this.#sources.size > 0
  }

  /** Whether the next element is read from the text of a setting, and not from a CTE. */
  get readsDirectly (): boolean {
    return this.#reads < MAX_DIRECT_READS
  }

  /** The shared result in which a reference finds its value. */
  sharedOf (reference: Reference): SharedResult {
    return sharedOf(reference, this.#earlier.results)
  }

  /** The name of a CTE with a shared result: one row, whose column `rows` is json[]. */
  readElements (result: SharedResult): Fragment {
    const name = this.#sources.get(result) ?? `s${this.#sources.size}`
    this.#sources.set(result, name)
    return identifier(name)
  }

  /** The CTEs with the elements of shared results. */
  sourceCtes (): readonly Fragment[] {
    return [...this.#sources].map(([{ setting }, name]) =>
      sql`${identifier(name)} as materialized (${sharedElements(setting)})`
    )
  }

  /** Conditions that the rows that the statement reads exist; see buildExistenceCheck. */
  existenceChecks (): readonly Fragment[] {
    return [...this.#unchecked.values()].map(buildExistenceCheck)
  }

  /** Whether the text of a reference is that of its JSON in the type of a column. */
  isTyped (reference: Reference, type: ColumnType): boolean {
    return [reference, ...reference.otherwise ?? []].every(({ source, row, column, parameter }) => {
      if (parameter !== undefined) return parameter.shape === 'scalar' || isJsonType(type)
      const scalar = row === '*' || column === undefined
        ? undefined
        : this.#earlier.scalars.get(source)?.get(column)
      // The conversion of other types depends on the time zone.
      return scalar?.type !== undefined && (!isZoned(type) || scalar.type.oid === type.oid)
    })
  }

  /** Registers references that hstore columns meet: those to hstore are read as its text. */
  readAsHstore (references: readonly Reference[]): void {
    for (const reference of references) {
      const all = [reference, ...reference.otherwise ?? []]
      const found = all.map(({ source, column = '' }) =>
        this.#earlier.scalars.get(source)?.get(column))
      if (found.every(scalar => scalar !== undefined && scalar.type === undefined)) {
        this.#hstores.add(reference)
      }
    }
  }

  /** Whether the JSON of a reference is another one than the shared. */
  isConverted (reference: Reference): boolean {
    return this.#hstores.has(reference)
  }

  /** The value of a reference as text. */
  textOf (reference: Reference, options: ReadOptions = {}): Fragment {
    const { parameter: of } = reference
    if (of === undefined) {
      return this.#shared(reference, options)
    }
    // An object or an array is sent as JSON only.
    return this.#needs.facts.checkValues || of.shape !== 'scalar'
      ? sql`(${this.jsonOf(reference)} operator(pg_catalog.#>>) '{}')`
      : sql`${parameter(textOfParameter(of))}::pg_catalog.text`
  }

  /** The value, the row or the list of a reference, as json. */
  jsonOf (reference: Reference, options: ReadOptions = {}): Fragment {
    const { parameter: of } = reference
    if (of !== undefined) return sql`${parameter(jsonOfParameter(of))}::pg_catalog.json`
    const json = this.#shared(reference, { ...options, json: true })
    if (!this.isConverted(reference)) return json
    return reference.row === '*'
      ? sql`(select pg_catalog.json_agg(${hstoreText(sql`e.value`)})
          from pg_catalog.json_array_elements(${json}) as e)`
      : hstoreText(json)
  }

  /**
   * The JSON of a reference as text, or NULL, which is shared as `null`. A text `null` has quotes.
   */
  jsonTextOf (reference: Reference, options: ReadOptions = {}): Fragment {
    return sql`nullif(${this.jsonOf(reference, options)}::pg_catalog.text, 'null')`
  }

  #shared (reference: Reference, options: ReadOptions): Fragment {
    const arrow = options.json === true
      ? sql`operator(pg_catalog.->)`
      : sql`operator(pg_catalog.->>)`
    return buildFirst(reference, one => {
      if (one.row === '*') {
        const list = this.#sharedList(one, options)
        return options.json === true ? list : sql`${list}::pg_catalog.text`
      }
      const result = this.sharedOf(one)
      const setting = this.#readSetting(one, result, options)
      this.#reads++
      if (this.#reads > MAX_DIRECT_READS) return this.#readElement(one, result, options)
      const json = readShared(setting)
      const row = integer(Number(one.row))
      const key = keyIn(result, one)
      return key === undefined
        ? sql`(${json} ${arrow} ${row})`
        : sql`(${json} operator(pg_catalog.->) ${row} ${arrow} ${parameter(key)})`
    })
  }

  #readElement (
    reference: Reference,
    result: SharedResult,
    { json = false }: ReadOptions
  ): Fragment {
    const element = sql`s.rows[${integer(Number(reference.row) + 1)}]`
    const key = keyIn(result, reference)
    const member = key === undefined
      ? element
      : sql`${element} operator(pg_catalog.->) ${parameter(key)}`
    const value = json ? member : sql`(${member}) operator(pg_catalog.#>>) '{}'`
    return sql`(select ${value} from ${this.readElements(result)} as s)`
  }

  /** A parameter with the name of the setting that a reference reads. */
  #readSetting (
    reference: Reference,
    { setting }: SharedResult,
    { checked = false }: ReadOptions
  ): Fragment {
    const { source, column } = reference
    const { scalars } = this.#earlier
    const scalar = column === undefined ? undefined : scalars.get(source)?.get(column)
    if (scalar !== undefined) this.#needs.addTypeCheck(scalar.check)
    if (!checked) this.addUnchecked(reference)
    return this.#setting(setting)
  }

  /** A parameter with the name of a setting. */
  #setting (name: string): Fragment {
    const setting = this.#settings.get(name) ?? sharedParameter(name)
    this.#settings.set(name, setting)
    return setting
  }

  /** Registers that nothing else checks whether the row of a reference exists. */
  addUnchecked (reference: Reference): void {
    const { source } = reference
    if (reference.parameter === undefined && this.#earlier.separate.has(source)) {
      this.#unchecked.set(source, this.#setting(this.sharedOf(reference).setting))
    }
  }

  /** The elements of a list, as texts. */
  listElements (list: Reference): Fragment {
    const { parameter: of } = list
    const json = of === undefined
      ? this.#sharedList(list)
      : sql`${parameter(jsonOfParameter(of))}::pg_catalog.json`
    return sql`pg_catalog.json_array_elements_text(${json})`
  }

  /** The values of a column in all rows, as one JSON array. */
  #sharedList (list: Reference, options: ReadOptions = {}): Fragment {
    const result = this.sharedOf(list)
    const setting = this.#readSetting(list, result, options)
    const key = keyIn(result, list)
    if (key === undefined) return readShared(setting)
    return sql`(select coalesce(pg_catalog.json_agg(e.value operator(pg_catalog.->) ${
      parameter(key)
    }), '[]') from pg_catalog.json_array_elements(${readShared(setting)}) as e (value))`
  }
}

/** The text of an hstore as JSON, from the JSON that PostgreSQL casts it to. */
function hstoreText (json: Fragment): Fragment {
  const escape = (text: Fragment, character: string): Fragment =>
    sql`pg_catalog.replace(${text}, ${constant(character)}, ${constant(`\\${character}`)})`
  const quoted = (text: Fragment): Fragment =>
    sql`pg_catalog.concat('"', ${escape(escape(text, '\\'), '"')}, '"')`
  const pairs = sql`select pg_catalog.string_agg(pg_catalog.concat(${quoted(sql`e.key`)}, '=>',
      case when e.value is null then 'NULL' else ${quoted(sql`e.value`)} end), ',')
    from pg_catalog.json_each_text(r.value) as e`
  return sql`(select case pg_catalog.json_typeof(r.value)
      when 'object' then pg_catalog.to_json(coalesce((${pairs}), '')) else r.value end
    from (select ${json} as value) as r)`
}
