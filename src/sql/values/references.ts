/**
 * Reads what earlier operations share in settings of the transaction (see shared-results.ts).
 * Chains of references therefore need no additional round trip.
 */
import {
  identifier,
  integer,
  parameter,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type { Reference } from '../../plan/nodes.ts'
import { isValue } from '../../plan/reference.ts'
import {
  buildExistenceCheck,
  keyIn,
  readShared,
  sharedElements,
  type Form,
  type SharedResult,
  type SharedResults
} from '../statement/shared-results.ts'
import { plainSlot } from '../statement/slot.ts'
import { buildFirst } from '../statement/when.ts'
import type { SourceColumn, Sources } from './sources.ts'
import type { StatementNeeds } from './statement-needs.ts'

/** What a statement needs to know about earlier operations. */
export interface Earlier {
  readonly results: SharedResults
  readonly sources: Sources
  /** See findSeparate. */
  readonly separate: ReadonlySet<number>
}

/**
 * Maximum number of elements that a statement reads directly, which parses the text of the setting
 * each time. Further ones are read from a CTE, which parses it once.
 */
const MAX_DIRECT_READS = 16

export class References {
  readonly #earlier: Earlier
  readonly #needs: StatementNeeds
  /** Names of the CTEs with the elements of shared results. */
  readonly #sources = new Map<SharedResult, string>()
  /** The shared results of operations that may have no row. */
  readonly #separate = new Set<SharedResult>()
  /** A setting of each operation whose readers check that its row exists. */
  readonly #unchecked = new Map<number, string>()
  /** The elements that were read from the text of a setting. */
  #reads = 0

  constructor (earlier: Earlier, needs: StatementNeeds) {
    this.#earlier = earlier
    this.#needs = needs
  }

  /**
   * What is known of the column that a reference reads, or of another one of its row. The statement
   * depends on its type.
   */
  sourceOf (
    { source, column: own }: Reference,
    column = own as string
  ): SourceColumn | undefined {
    const found = this.#earlier.sources.get(source)?.find(column)
    if (found !== undefined && 'table' in found) this.#needs.addColumn(found)
    return found
  }

  /** The names of all columns of the rows of a reference; undefined: not all are known. */
  namesOf ({ source }: Reference): readonly string[] | undefined {
    return this.#earlier.sources.get(source)?.names
  }

  /** Whether the column that a reference reads can be shared in every form. */
  isTyped (reference: Reference): boolean {
    return isValue(reference) &&
      this.#earlier.sources.get(reference.source)?.isTyped(reference.column as string) === true
  }

  /** The shared result in which a reference finds its value. Registers that it is read. */
  useShared (reference: Reference, form: Form): SharedResult {
    const { source } = reference
    const result = this.#earlier.results.find(reference, form)
    if (this.#earlier.separate.has(source)) {
      this.#separate.add(result)
      this.#unchecked.set(source, result.setting)
    }
    return result
  }

  /** The name of a CTE with a shared result: one row, whose column `rows` is json[]. */
  readElements (result: SharedResult): Fragment {
    const name = this.#sources.get(result) ?? `s${this.#sources.size}`
    this.#sources.set(result, name)
    return identifier(name)
  }

  /** The CTEs with the elements of shared results. */
  sourceCtes (): readonly Fragment[] {
    return [...this.#sources].map(([result, name]) => {
      const elements = sharedElements(result.setting, this.#separate.has(result))
      return sql`${identifier(name)} as materialized (${elements})`
    })
  }

  /** Conditions that the rows that the statement reads exist; see buildExistenceCheck. */
  existenceChecks (): readonly Fragment[] {
    return [...this.#unchecked].map(([source, setting]) => buildExistenceCheck(source, setting))
  }

  /** The value of a reference as text: a string without quotes, any other value as its JSON. */
  textOf (reference: Reference): Fragment {
    const { parameter: of } = reference
    return of === undefined
      ? textOfJson(this.jsonOf(reference))
      : sql`${plainSlot(of, 'text')}::pg_catalog.text`
  }

  /** The value, the row or the list of a reference, as json. */
  jsonOf (reference: Reference, form: Form = 'json'): Fragment {
    const { parameter: of, otherwise } = reference
    if (of !== undefined) return sql`${plainSlot(of, 'json')}::pg_catalog.json`
    if (otherwise !== undefined) return buildFirst(reference, one => this.jsonOf(one, form))
    if (reference.row === '*') return this.#listOf(reference, form)
    const result = this.useShared(reference, form)
    this.#reads++
    if (this.#reads > MAX_DIRECT_READS) return this.#readElement(reference, result)
    const json = sql`${this.#readAll(result)} operator(pg_catalog.->) ${integer(reference.row)}`
    const key = keyIn(result, reference)
    return key === undefined
      ? sql`(${json})`
      : sql`(${json} operator(pg_catalog.->) ${parameter(key)})`
  }

  #readElement (reference: Reference, result: SharedResult): Fragment {
    const element = sql`s.rows[${integer(Number(reference.row) + 1)}]`
    const key = keyIn(result, reference)
    const member = key === undefined
      ? element
      : sql`${element} operator(pg_catalog.->) ${parameter(key)}`
    return sql`(select ${member} from ${this.readElements(result)} as s)`
  }

  /** The values of a column in all rows, as one JSON array. */
  #listOf (list: Reference, form: Form): Fragment {
    const result = this.useShared(list, form)
    const all = this.#readAll(result)
    const key = keyIn(result, list)
    if (key === undefined) return all
    return sql`(select coalesce(pg_catalog.json_agg(e.value operator(pg_catalog.->) ${
      parameter(key)
    }), '[]') from pg_catalog.json_array_elements(${all}) as e (value))`
  }

  /** All values of a shared result, as one JSON array. */
  #readAll (result: SharedResult): Fragment {
    return readShared(result.setting, this.#separate.has(result))
  }
}

/** JSON as text: a string without quotes, and NULL for null. */
export function textOfJson (json: Fragment): Fragment {
  return sql`(${json} operator(pg_catalog.#>>) '{}')`
}
