/**
 * Writes JSON with references for the types that it meets, and keeps how each reference is read.
 */
import { baseOf, type RangeType, type Type } from '../../catalogue/type.ts'
import { join, parameter, sql, type Fragment } from '../../fragment/fragment.ts'
import { isNested, writeJson, type Json } from '../../json/parse.ts'
import { hasReference, readNumber } from '../../plan/document.ts'
import type { Reference } from '../../plan/nodes.ts'
import { isList } from '../../plan/reference.ts'
import type { WriteIssue } from '../../values/issue.ts'
import { writeMixed } from '../../values/write-mixed.ts'
import type { Form } from '../statement/shared-results.ts'
import type { StatementNeeds } from './statement-needs.ts'
import { rangeOf, type ReferencePlace, type TypedReferences } from './typed-references.ts'
import { isJsonType } from './value-type.ts'

/**
 * How a reference in a document is read: in its boxed form, or for a type. `isFirst`: it is the
 * first element of an array of JSON.
 */
type Reader =
  | 'boxed'
  | { readonly type: Type, readonly place: ReferencePlace, readonly isFirst?: boolean }

interface Range {
  readonly bounds: readonly Json[]
  readonly type: RangeType
}

export class DocumentWriter {
  readonly #references: readonly Reference[]
  readonly #typed: TypedReferences
  readonly #needs: StatementNeeds
  /** By the numbers of the references; the others are read as JSON. */
  readonly #readers = new Map<number, Reader>()
  /** The bounds of ranges, by the numbers of their first references, which stand for them. */
  readonly #ranges = new Map<number, Range>()

  /** `references`: those of the document, by their numbers. */
  constructor (
    references: readonly Reference[],
    typed: TypedReferences,
    needs: StatementNeeds
  ) {
    this.#references = references
    this.#typed = typed
    this.#needs = needs
  }

  /** Writes JSON with references for a type, which is neither json nor jsonb. */
  write (value: Json, type: Type, place: ReferencePlace): Json {
    const report = (issue: WriteIssue): unknown => this.#needs.refused.push({ ...place, issue })
    return writeMixed(value, type, {
      refers: hasReference,
      meet: (text, element, path, list) => {
        const number = readNumber(text)
        if (number === undefined) return undefined
        const reference = this.#references[number] as Reference
        if (isJsonType(baseOf(element))) {
          // PostgreSQL counts dimensions by the first element only.
          if (list === undefined || path.at(-1) !== 0) return 'any'
          this.#readers.set(number, { type: element, place: { ...place, path }, isFirst: true })
          return isList(reference) ? 'list' : 'any'
        }
        // A list inside an array is another dimension.
        const type = list !== undefined && isList(reference) ? list : element
        this.#readers.set(number, { type, place: { ...place, path } })
        if (isList(reference)) return 'list'
        return reference.parameter === undefined ? 'value' : 'any'
      },
      meetRange: (bounds, type) => {
        if (bounds.some(bound => isNested(bound) && hasReference(bound))) return undefined
        const first = bounds.find(hasReference) ?? null
        this.#ranges.set(readNumber(first) as number, { bounds, type })
        return first
      },
      report
    })
  }

  /** Writes JSON for json or jsonb in its boxed form. */
  writeBoxed (value: Json): Json {
    if (value === null) return null
    const number = readNumber(value)
    if (number === undefined) return [value]
    this.#readers.set(number, 'boxed')
    return value
  }

  /** Builds the value of a reference as it stands in the document; undefined: its JSON. */
  build (reference: Reference, number: number): Fragment | undefined {
    const range = this.#ranges.get(number)
    return range === undefined ? this.#read(reference, number) : this.#buildRange(range)
  }

  /** PostgreSQL reads the text of a range, in which the escapes of JSON mean something else. */
  #buildRange ({ bounds, type }: Range): Fragment {
    const values = bounds.map(bound => {
      const number = readNumber(bound)
      return number === undefined
        ? sql`${parameter(writeJson(bound))}::pg_catalog.json`
        : this.#buildBound(this.#references[number] as Reference, number)
    })
    return rangeOf(sql`pg_catalog.json_build_array(${join(values)})`, type)
  }

  #buildBound (reference: Reference, number: number): Fragment {
    return this.#read(reference, number) ??
      sql`${this.#typed.nullableJson(reference)}::pg_catalog.json`
  }

  #read (reference: Reference, number: number): Fragment | undefined {
    const reader = this.#readers.get(number)
    if (reader === undefined) return undefined
    if (reader === 'boxed') return this.#typed.boxOf(reference)
    const { type, place, isFirst = false } = reader
    return isFirst
      ? this.#typed.firstElementOf(reference, type, place)
      : this.#typed.jsonOf(reference, type, place)
  }

  /** The form in which a reference is shared as it stands in the document; undefined: in none. */
  formOf (reference: Reference, number: number): Form | undefined {
    const reader = this.#readers.get(number)
    if (typeof reader === 'object' && reader.isFirst === true) return undefined
    if (this.#ranges.has(number)) return undefined
    return reader === undefined ? 'json' : this.#typed.formOf(reference, reader)
  }

  /** A key that two lists have in common if they are read in the same way. */
  keyOf (number: number): string {
    const reader = this.#readers.get(number)
    return typeof reader === 'object'
      ? `${reader.type.oid} ${reader.isFirst === true}`
      : `${reader}`
  }
}
