/**
 * Builds the values of references for the types that they meet, exactly or not at all. What can be
 * refused by the types of both ends is refused before the batch is sent.
 */
import { baseOf, type RangeType, type Type } from '../../catalogue/type.ts'
import { sql, type Fragment } from '../../fragment/fragment.ts'
import type { Reference } from '../../plan/nodes.ts'
import { isList, isValue } from '../../plan/reference.ts'
import type { WriteProblem } from '../../values/issue.ts'
import type { Form } from '../statement/shared-results.ts'
import {
  listJsonSlot,
  memberSlot,
  type RefusedHere,
  type SlotPlace
} from '../statement/slot.ts'
import { buildFirst } from '../statement/when.ts'
import { isScalarType, readingOf, type Reading } from './reading.ts'
import { textOfJson, type References } from './references.ts'
import type { StatementNeeds } from './statement-needs.ts'
import { isJsonType, isTime } from './value-type.ts'

/** Where a reference stands. */
export interface ReferencePlace extends SlotPlace {
  /** The members and positions inside the value of the column. */
  readonly path?: ReadonlyArray<string | number>
}

export class TypedReferences {
  readonly #references: References
  readonly #needs: StatementNeeds

  constructor (references: References, needs: StatementNeeds) {
    this.#references = references
    this.#needs = needs
  }

  /** Whether a value is checked while the statement runs. */
  isChecked (reference: Reference, type: Type): boolean {
    return allOf(reference).some(one => this.#readingOf(one, type, false).as === 'checked')
  }

  /** Whether only PostgreSQL's conversion of JSON reads a value in a type. */
  needsJson (reference: Reference, type: Type): boolean {
    if (!isValue(reference)) return true
    return baseOf(type).kind === 'array' && allOf(reference).some(one => {
      const { as } = this.#readingOf(one, type, false)
      return as === 'checked' || as === 'json'
    })
  }

  /** A value as a text that a type reads. */
  textOf (reference: Reference, type: Type, place: ReferencePlace): Fragment {
    return textOfJson(this.jsonOf(reference, type, place))
  }

  /** A value as JSON that PostgreSQL converts to a type. */
  jsonOf (reference: Reference, type: Type, place: ReferencePlace): Fragment {
    const { parameter: of } = reference
    if (of !== undefined) return sql`${memberSlot(of, type, place)}::pg_catalog.json`
    if (reference.row === '*') return this.#listFor(reference, type, place)
    return buildFirst(reference, one => this.#read(one, type, place))
  }

  /** A list as the JSON of an array whose elements have this type. */
  listOf (list: Reference, type: Type, place: ReferencePlace): Fragment {
    const { parameter: of } = list
    return of === undefined
      ? this.#read(list, type, place)
      : sql`${listJsonSlot(of, type, place)}::pg_catalog.json`
  }

  /** Reads a value or a row for a type, or a list for the type of its elements. */
  #read (reference: Reference, type: Type, place: ReferencePlace): Fragment {
    const isAll = reference.row === '*'
    const one = isAll ? { ...reference, row: 0 } : reference
    const reading = this.#readingOf(one, type, place.isCompared)
    if (reading.as === 'refused') return this.#refuse(reading.problem, type, place)
    const json = this.#references.jsonOf(reference, reading.as === 'text' ? 'text' : 'json')
    if (reading.as !== 'checked') {
      const base = baseOf(type)
      return reading.as === 'json' && base.kind === 'range' ? rangeOf(json, base) : json
    }
    return isAll
      ? this.#checkElements(json, type, place)
      : this.#checkJson(json, type, place)
  }

  /**
   * A value as the first element of an array of JSON, or a list as the first dimension. PostgreSQL
   * takes a JSON array there for a dimension, and drops an empty one.
   */
  firstElementOf (reference: Reference, type: Type, place: ReferencePlace): Fragment {
    const issue = refusalAt(place, type, 'dimension')
    if (isList(reference)) {
      const isDimension = sql`(${FIRST_IS_ARRAY}) is not false`
      return this.#refuseIf(isDimension, this.#references.jsonOf(reference), issue)
    }
    return buildFirst(reference, one => {
      const json = this.#references.jsonOf(one)
      const source = isValue(one) ? this.#references.sourceOf(one)?.type : undefined
      return !isValue(one) || (source !== undefined && isScalarType(source))
        ? json
        : this.#refuseIf(IS_ARRAY, json, issue)
    })
  }

  /** JSON, which is refused if this condition on the value of the row `r` is true. */
  #refuseIf (condition: Fragment, json: Fragment, issue: RefusedHere): Fragment {
    if (this.#needs.facts.explain) return json
    return sql`(select case when ${condition}
        then ${this.#needs.raiseIssue(issue)}::pg_catalog.json else r.value end
      from (select ${json} as value) as r)`
  }

  #listFor (list: Reference, type: Type, place: ReferencePlace): Fragment {
    const base = baseOf(type)
    if (base.kind === 'array') {
      return isJsonType(baseOf(base.element))
        ? this.#refuseDimension(this.#references.jsonOf(list), base.element, place)
        : this.listOf(list, base.element, place)
    }
    return base.kind === 'base' && base.form === 'list'
      ? this.#references.jsonOf(list)
      : this.#refuse(isOneValue(base) ? 'list' : 'other', type, place)
  }

  /** A list for an array of JSON, in which PostgreSQL would take a first array for a dimension. */
  #refuseDimension (list: Fragment, element: Type, place: ReferencePlace): Fragment {
    const at = { ...place, path: [...place.path ?? [], 0] }
    return this.#refuseIf(FIRST_IS_ARRAY, list, refusalAt(at, element, 'dimension'))
  }

  /**
   * The JSON of a reference as text, in the type json or jsonb. NULL stays NULL, and the JSON null
   * of a column stays the JSON null.
   */
  jsonTextOf (reference: Reference): Fragment {
    return buildFirst(reference, one => this.#needsBox(one)
      ? sql`(${
          this.#references.jsonOf(one, 'boxed')
        } operator(pg_catalog.->) 0)::pg_catalog.text`
      : this.nullableJson(one))
  }

  /** The JSON of a reference as text; NULL also for the JSON null. A text `null` has quotes. */
  nullableJson (reference: Reference): Fragment {
    return sql`nullif(${this.#references.jsonOf(reference)}::pg_catalog.text, 'null')`
  }

  /** Whether its value may be the JSON null, which only its boxed form tells from NULL. */
  needsBox (reference: Reference): boolean {
    return allOf(reference).some(one => this.#needsBox(one))
  }

  #needsBox (reference: Reference): boolean {
    if (this.#needs.facts.explain || !this.#references.isTyped(reference)) return false
    const type = this.#references.sourceOf(reference)?.type
    return type === undefined || isJsonType(baseOf(type))
  }

  /** A value in its boxed form; see Form. */
  boxOf (reference: Reference): Fragment {
    return buildFirst(reference, one => this.#references.isTyped(one)
      ? this.#references.jsonOf(one, 'boxed')
      : boxed(this.#references.jsonOf(one)))
  }

  /**
   * The form in which a value or row is shared exactly as it is read, boxed or for a type.
   * Undefined: there is no such form.
   */
  formOf (
    reference: Reference,
    reader: 'boxed' | { readonly type: Type, readonly place: ReferencePlace }
  ): Form | undefined {
    if (reader === 'boxed') return this.#references.isTyped(reference) ? 'boxed' : undefined
    const { as } = this.#readingOf(reference, reader.type, reader.place.isCompared)
    if (as === 'text') return as
    const isShared = as === 'json' && baseOf(reader.type).kind !== 'range'
    return as === 'scalar' || isShared ? 'json' : undefined
  }

  /** `isCompared`: JSON that is compared may be of any kind, if its text is not read as a time. */
  #readingOf (reference: Reference, type: Type, isCompared = false): Reading {
    const reading = isValue(reference)
      ? readingOf(this.#references.sourceOf(reference)?.type, type)
      : this.#readRow(reference, baseOf(type))
    if (this.#needs.facts.explain) return { as: 'json' }
    const isLenient = isCompared && isValue(reference) && !isTime(type)
    return isLenient && (reading.as === 'checked' || reading.as === 'refused')
      ? { as: 'json' }
      : reading
  }

  /** A row is read as JSON for a composite that has attributes for all of its columns. */
  #readRow (reference: Reference, type: Type): Reading {
    const names = this.#references.namesOf(reference)
    if (type.kind !== 'composite' || names === undefined) {
      return { as: 'refused', problem: isOneValue(type) ? 'list' : 'other' }
    }
    const isRead = names.every(name => {
      const attribute = type.attributes.get(name)
      if (attribute === undefined) return false
      const base = baseOf(attribute)
      if (isJsonType(base)) return true
      // The JSON of its first element would be taken for a dimension.
      if (base.kind === 'array' && isJsonType(baseOf(base.element))) return false
      const source = this.#references.sourceOf(reference, name)?.type
      const { as } = readingOf(source, attribute)
      const from = source && baseOf(source)
      // The elements of some arrays have another text in JSON, as which the row is read.
      return as === 'text' || as === 'scalar' ||
        (as === 'json' && from?.kind === 'array' && isScalarType(from.element))
    })
    return isRead ? { as: 'json' } : { as: 'refused', problem: 'other' }
  }

  /** Refuses the statement, which is not sent. */
  #refuse (problem: WriteProblem, type: Type, place: ReferencePlace): Fragment {
    this.#needs.refused.push(refusalAt(place, type, problem))
    return sql`null::pg_catalog.json`
  }

  /** JSON that must be one value, or in an array a list of such values. */
  #checkJson (json: Fragment, type: Type, place: ReferencePlace): Fragment {
    const base = baseOf(type)
    if (base.kind !== 'array') {
      const problem = base.kind === 'composite' ? 'json' : 'list'
      return this.#refuseIf(IS_NESTED, json, refusalAt(place, type, problem))
    }
    const list = isJsonType(baseOf(base.element))
      ? this.#refuseDimension(sql`v.value`, base.element, place)
      : this.#checkElements(sql`v.value`, base.element, place)
    const kind = sql`pg_catalog.json_typeof(v.value)`
    return sql`(select case when ${kind} operator(pg_catalog.=) 'array' then ${list}
        when ${kind} operator(pg_catalog.=) any ('{object,number,boolean}')
        then ${this.#needs.raiseIssue(refusalAt(place, type, 'array'))}::pg_catalog.json
        else v.value end from (select ${json} as value) as v)`
  }

  /** The JSON of a list, of which each element must be one value. */
  #checkElements (json: Fragment, type: Type, place: ReferencePlace): Fragment {
    const issue = refusalAt(place, type, 'list')
    return sql`(select case when r.nested is null then r.list
        else ${this.#needs.raiseIssue(issue, sql`r.nested`)}::pg_catalog.json end
      from (select l.list, (select pg_catalog.min(e.position) operator(pg_catalog.-) 1
          from pg_catalog.json_array_elements(l.list) with ordinality as e (value, position)
          where pg_catalog.json_typeof(e.value) in ('array', 'object')) as nested
        from (select ${json} as list) as l) as r)`
  }
}

function allOf (reference: Reference): readonly Reference[] {
  return [reference, ...reference.otherwise ?? []]
}

function isOneValue ({ kind }: Type): boolean {
  return kind === 'base' || kind === 'enum'
}

function boxed (json: Fragment): Fragment {
  return sql`(select case pg_catalog.json_typeof(r.value) when 'null' then r.value
      else pg_catalog.json_build_array(r.value) end from (select ${json} as value) as r)`
}

/**
 * The JSON array of the bounds of a range as its text, in a JSON string; other JSON as it is. In
 * the text of a range, the escapes of JSON mean something else, and so do blanks.
 */
export function rangeOf (json: Fragment, { subtype }: RangeType): Fragment {
  const isJson = isJsonType(baseOf(subtype))
  const text = isJson ? sql`e.value::pg_catalog.text` : textOfJson(sql`e.value`)
  const refused = isJson ? sql`'{"null"}'` : sql`'{"null",array,object}'`
  const quoted = sql`pg_catalog.concat('"', pg_catalog.replace(
      pg_catalog.replace(${text}, '\\', '\\\\'), '"', '\\"'), '"')`
  // PostgreSQL refuses a range with another number of bounds.
  return sql`(select case when ${IS_ARRAY} then pg_catalog.to_json(pg_catalog.concat('[',
        (select pg_catalog.string_agg(${quoted}, ',')
          from pg_catalog.json_array_elements(r.value) as e (value)
          where pg_catalog.json_typeof(e.value) operator(pg_catalog.<>) all (${refused})), ']'))
      else r.value end from (select ${json} as value) as r)`
}

function refusalAt (
  { path = [], ...place }: ReferencePlace,
  type: Type,
  problem: WriteProblem
): RefusedHere {
  return { ...place, issue: { problem, path, type: baseOf(type) } }
}

/** Conditions on the JSON of a row `r`. */
const IS_ARRAY = sql`pg_catalog.json_typeof(r.value) operator(pg_catalog.=) 'array'`
const IS_NESTED = sql`pg_catalog.json_typeof(r.value) operator(pg_catalog.=) any ('{array,object}')`
const FIRST_IS_ARRAY =
  sql`pg_catalog.json_typeof(r.value operator(pg_catalog.->) 0) operator(pg_catalog.=) 'array'`
