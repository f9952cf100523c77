/**
 * Builds the values of a statement, in which the types of columns are named.
 */
import { FIRST_CREATED_OID } from '../../catalogue/built-in.ts'
import { baseOf, type Type } from '../../catalogue/type.ts'
import type { JoiningName } from '../../../schemas/modifier.ts'
import {
  AND,
  empty,
  identifier,
  join,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type { Json, JsonObject } from '../../json/parse.ts'
import { readGiven, readWhole } from '../../plan/document.ts'
import { toPath } from '../../plan/name.ts'
import type {
  CallNode,
  Cell,
  ColumnPath,
  Given,
  JsonDocument,
  Literal,
  Reference,
  TableName
} from '../../plan/nodes.ts'
import { findReferences } from '../../plan/stored-values.ts'
import { isNumeric, isPlain } from '../../values/write.ts'
import { nullRow } from '../statement/table.ts'
import { nullRowOfCall, type ArgumentBuilder } from './call.ts'
import { comparableValue, type RowColumns } from './column.ts'
import { DocumentWriter } from './document-writer.ts'
import { buildDocument } from './documents.ts'
import { KnownColumns, NO_COLUMNS } from './known-columns.ts'
import { textOfJson, type References } from './references.ts'
import { typeOfCast } from './sources.ts'
import type { StatementNeeds } from './statement-needs.ts'
import {
  JsonConverter,
  buildRecordset,
  convertJson,
  isJson,
  pathLabel,
  typeExample,
  type TypedAs,
  type TypedPath
} from './typed-json.ts'
import {
  arraySlot,
  operandSlot,
  plainSlot,
  rowsSlot,
  slot,
  type SlotPlace
} from '../statement/slot.ts'
import { TypedReferences, type ReferencePlace } from './typed-references.ts'
import {
  canJoin,
  delimiterOf,
  isJsonType,
  nameCast,
  nameWritten,
  withoutLimits
} from './value-type.ts'

/** Where and how a value meets a column. */
interface ValuePlace extends Pick<SlotPlace, 'row' | 'at'> {
  /** The value is assigned, and not only compared. */
  readonly stored: boolean
  readonly as?: TypedAs | undefined
}

/** A field of rows, which is a value of a column. */
export interface WrittenField {
  readonly name: string
  readonly column: string
  readonly member?: string | undefined
  readonly as: TypedAs | 'text'
  readonly stored: boolean
  /** Its type, if that is not the type of the column. */
  readonly type?: Type
}

/** SQL of rows to store: their source, and an expression for each value. */
export interface StoredRows {
  /** What follows FROM; its rows are `x`. */
  readonly from: Fragment
  readonly stored: readonly Fragment[]
}

/** Rows as JSON, with their values in the types of their columns. */
interface WrittenRows {
  readonly json: Fragment
  /** The names of the fields whose values are boxed; see Form. */
  readonly boxed: ReadonlySet<string>
}

export class TypedValues extends KnownColumns implements ArgumentBuilder, RowColumns {
  /** The table whose columns the values meet. */
  readonly table: TableName
  readonly row: Fragment
  /** The columns of the row proposed for insertion, also for values that meet another table. */
  readonly proposed: RowColumns
  /** Whether clients see the plan of the statement, so it raises no errors of ours. */
  readonly explain: boolean
  readonly converter: JsonConverter
  /** The operation whose function returns the rows. */
  readonly #call: CallNode | undefined
  readonly #references: References
  readonly #typed: TypedReferences

  constructor (
    table: TableName,
    references: References,
    needs: StatementNeeds,
    row = sql`t`,
    proposed?: RowColumns
  ) {
    // A table that a condition reads can have the name of the function.
    const call = table === needs.facts.call?.table ? needs.facts.call : undefined
    super(call === undefined ? needs.facts.findColumns(table) : NO_COLUMNS, needs)
    this.table = table
    this.row = row
    this.proposed = proposed ?? this
    this.#call = call
    this.explain = needs.facts.explain
    this.#references = references
    this.#typed = new TypedReferences(references, needs)
    this.converter = new JsonConverter(table, () =>
      call === undefined
        ? sql`pg_catalog.json_populate_record(${nullRow(table)}, '{}')`
        : nullRowOfCall(call, this))
  }

  /** The columns of the rows of `from`. */
  get source (): RowColumns {
    return this.needs.facts.source
  }

  buildDocument (document: JsonDocument): Fragment {
    const given = readGiven(document)
    if (given !== undefined) return sql`${plainSlot(given, 'json')}::pg_catalog.json`
    return buildDocument(document, this.#references, this.#writerOf(document))
  }

  #writerOf ({ references }: Pick<JsonDocument, 'references'>): DocumentWriter {
    return new DocumentWriter(references, this.#typed, this.needs)
  }

  /** Builds values that meet columns of another table, whose row gets a name of its own. */
  ofTable (table: TableName): TypedValues {
    return new TypedValues(table, this.#references, this.needs, this.needs.nameRow(), this.proposed)
  }

  /** See CompileOptions. */
  get plain (): boolean {
    return this.needs.facts.plain
  }

  /**
   * Returns conditions that are true, and compute the values so far that PostgreSQL may refuse: it
   * would not compute those of an update that matches no row.
   */
  convertFirst (): readonly Fragment[] {
    if (this.explain) return []
    return this.needs.converted.map(value =>
      sql`case when ${value} is null then true else true end`
    )
  }

  /**
   * Returns conditions, which contain no column of the table, where they are evaluated once. In a
   * plain statement they are a CTE: Citus refuses CASE in the condition of a change.
   */
  evaluateOnce (conditions: readonly Fragment[]): readonly Fragment[] {
    if (!this.plain || conditions.length === 0) return conditions
    const all = this.needs.addRows(sql`select ${join(conditions, AND)} as ok`)
    return [sql`(select c.ok from ${all} as c)`]
  }

  /**
   * Builds a value of a row that is stored. `as`: how it is read, see TypedAs. `row`: the position
   * in `values`.
   */
  buildCell (
    cell: Cell,
    column: string,
    { as = 'value', stored = true, row }: {
      readonly as?: TypedAs | 'text' | undefined
      readonly stored?: boolean
      readonly row?: number | undefined
    } = {}
  ): Fragment {
    const path = toPath(column)
    if (as === 'text') {
      return cell.kind === 'reference'
        ? this.#references.textOf(cell)
        : sql`${plainSlot(cell as Literal, 'text')}::pg_catalog.text`
    }
    if (cell.kind === 'reference') return this.#readReference(cell, path, { as, stored, row })
    if (cell.kind === 'document') return this.buildJson(cell, path, { stored, row })
    const type = this.writtenType(column, { as, stored })
    return type === undefined
      ? this.#convert(sql`${plainSlot(cell, 'json')}::pg_catalog.json`, path, { as, stored })
      : this.#write(cell, type, { column, place: { row, as, stored } })
  }

  /**
   * Builds an array of the values of a column. `cast`: follows an element that is a text, because
   * unnest takes arrays and composites apart. Undefined: the type has no name here.
   */
  buildArray (
    rows: Given,
    column: string,
    positions: readonly number[]
  ): { readonly array: Fragment, readonly cast?: Fragment } | undefined {
    const type = this.writtenType(column, { stored: true })
    const name = nameWritten(type)
    if (type === undefined || name === undefined) return undefined
    this.addParameterType(column)
    const base = baseOf(type)
    const isText = base.kind === 'array' || base.kind === 'composite' || base.kind === 'unknown'
    const delimiter = isText ? ',' : delimiterOf(base)
    const array = arraySlot(rows, type, { column, positions, delimiter })
    return isText
      ? { array: sql`${array}::pg_catalog.text[]`, cast: sql`::${name}` }
      : { array: sql`${array}::${name}[]` }
  }

  /**
   * Builds rows from JSON, whose fields have the types of their columns. A type without a name here
   * is taken from the table. `positions`: those in `values`, by default in their order. `number`:
   * the name of a column with the numbers of the rows, from 1.
   */
  buildRows (
    rows: JsonDocument,
    fields: readonly WrittenField[],
    { positions = [], number }: {
      readonly positions?: readonly number[]
      readonly number?: Fragment
    } = {}
  ): StoredRows {
    const { json, boxed } = this.#writeRows(rows, fields, positions)
    const types = fields.map(field =>
      boxed.has(field.name) ? sql`pg_catalog.json` : this.#nameOfField(field))
    const stored = fields.map(({ name, column }) => {
      const value = sql`x.${identifier(name)}`
      return boxed.has(name) ? this.#unbox(value, column) : value
    })
    if (types.every(type => type !== undefined)) {
      const columns = types.map((type, i) =>
        [identifier((fields[i] as WrittenField).name), type] as const)
      return { from: buildRecordset(json, columns, number), stored }
    }
    const typed = this.converter.buildFieldRows(
      sql`${json}::pg_catalog.json`,
      fields.map(({ name, column, as }, i) => [name, types[i] === undefined
        ? typeExample(toPath(column), this.table, as as TypedAs)
        : sql`null::${types[i]}`]),
      number
    )
    return { from: sql`(${typed}) as x`, stored }
  }

  #nameOfField ({ column, as, stored, type: own }: WrittenField): Fragment | undefined {
    if (as === 'text') return TEXT.sql
    const type = own ?? this.targetType(column, as)
    return nameWritten(type && (stored ? type : withoutLimits(type)))
  }

  /** The value of a column that is json and boxed in rows, in the type of the column. */
  #unbox (value: Fragment, column: string): Fragment {
    const type = baseOf(this.targetType(column) as Type)
    return sql`(${value} operator(pg_catalog.->) 0)::${type.sql as Fragment}`
  }

  #writeRows (
    rows: JsonDocument,
    fields: readonly WrittenField[],
    positions: readonly number[]
  ): WrittenRows {
    const given = readGiven(rows)
    if (given === undefined) return this.#buildReferringRows(rows, fields, positions)
    const members = fields.flatMap(field => {
      const { name, column, member } = field
      const type = this.#typeOfField(field)
      return type === undefined ? [] : [{ name, column, member, type }]
    })
    return { json: rowsSlot(given, members, positions), boxed: new Set() }
  }

  /** Builds rows with references to operations. */
  #buildReferringRows (
    rows: JsonDocument,
    fields: readonly WrittenField[],
    positions: readonly number[]
  ): WrittenRows {
    const writer = this.#writerOf(rows)
    const boxed = new Set<string>()
    const objects = (rows.value as readonly JsonObject[]).map(object => ({ ...object }))
    for (const field of fields) {
      const { name, column } = field
      const type = this.#typeOfField(field)
      const found = findReferences(rows, name)
      if (type === undefined || (found === undefined && isPlain(type))) continue
      const isBoxed = isJsonType(baseOf(type)) &&
        found?.some(reference => this.#typed.needsBox(reference)) === true
      if (isBoxed) boxed.add(name)
      for (const [i, object] of objects.entries()) {
        const value = object[name] as Json
        object[name] = isBoxed
          ? writer.writeBoxed(value)
          : writer.write(value, type, { column, row: positions[i] })
      }
    }
    return { json: buildDocument({ ...rows, value: objects }, this.#references, writer), boxed }
  }

  /** The type in which a field is written. */
  #typeOfField ({ column, as, stored, type }: WrittenField): Type | undefined {
    return type ?? (as === 'text' ? undefined : this.writtenType(column, { as, stored }))
  }

  /**
   * Builds a value of the request that is written in the type of a column. `isOperand`: a single
   * value is only compared; see operandSlot.
   */
  #write (
    value: Given,
    type: Type,
    { column, place: { as, stored, ...at }, isOperand = false }: {
      readonly column: string
      readonly place: ValuePlace
      readonly isOperand?: boolean
    }
  ): Fragment {
    this.addParameterType(column)
    const place = { ...at, column, isCompared: !stored }
    const text = isOperand && !isJsonType(baseOf(type))
      ? operandSlot(value, type, place)
      : slot(value, type, place)
    const name = nameCast(type)
    if (name !== undefined) return sql`${text}::${name}`
    const json = sql`pg_catalog.to_json(${text}::pg_catalog.text)`
    return this.#convert(json, toPath(column), { as, stored })
  }

  /**
   * A value that is stored in a column as the text of its type, which PostgreSQL takes from the
   * column; undefined: it is not known.
   */
  writeText (value: Given, column: string): Fragment | undefined {
    const type = this.writtenType(column, { stored: true })
    return type && slot(value, type, { column })
  }

  /** Builds a reference in the type of a column path. */
  #readReference (reference: Reference, path: TypedPath, read: ValuePlace): Fragment {
    const { column, example } = path
    const { as = 'value', stored, row, at } = read
    const place = { column, row, isCompared: !stored, at }
    const type = example === undefined ? this.targetType(column, as) : undefined
    if (type === undefined) {
      const json = this.#references.jsonOf(reference)
      return this.#convert(json, path, read)
    }
    const base = baseOf(type)
    if (isJsonType(base)) {
      const text = stored
        ? this.#typed.jsonTextOf(reference)
        : this.#typed.nullableJson(reference)
      return sql`${text}::${base.sql as Fragment}`
    }
    const isChecked = stored && this.#typed.isChecked(reference, type)
    const register = (value: Fragment): Fragment => {
      if (isChecked) this.needs.converted.push(value)
      return value
    }
    if (this.#typed.needsJson(reference, type)) {
      const json = this.#typed.jsonOf(reference, type, place)
      return register(this.#convert(json, path, read))
    }
    const name = nameCast(stored ? type : withoutLimits(type))
    const text = this.#typed.textOf(reference, type, place)
    if (name === undefined || base.oid >= FIRST_CREATED_OID) {
      const json = sql`pg_catalog.to_json(${text})`
      return register(this.#convert(json, path, read))
    }
    return register(sql`${text}::${name}`)
  }

  /** The value of a reference, which is computed once. Conditions on it can use an index. */
  #once ({ parameter }: Reference, value: Fragment): Fragment {
    return parameter === undefined ? sql`(select ${value})` : value
  }

  /**
   * Converts JSON to the type of a column path, without its length or precision, as PostgreSQL
   * converts the members of a record.
   */
  #convert (
    json: Fragment,
    path: TypedPath,
    { as = 'value', stored = false }: Partial<ValuePlace>
  ): Fragment {
    const { column, resultType, example } = path
    const isOfColumn = resultType === 'column' && example === undefined
    const type = isOfColumn ? this.targetType(column, as) : undefined
    const name = nameWritten(type && (stored ? type : withoutLimits(type)))
    return name === undefined
      ? this.converter.convert(json, path, as)
      : convertJson(json, name)
  }

  /**
   * Builds a column of `from` that is added to a column or subtracted from it. A number counts
   * there like one of the request, for example seconds for a timestamp.
   */
  buildDifference (path: ColumnPath, target: ColumnPath): Fragment {
    const value = comparableValue(path, this.source)
    // A path into JSON has the type of its column here, which is no number.
    const type = this.source.typeOf(path.column)
    const difference = this.targetType(target.column, 'difference')
    const isConverted = difference !== undefined && !isNumeric(this.typeOf(target.column)) &&
      isNumeric(type) && baseOf(type as Type).oid !== difference.oid
    const json = sql`pg_catalog.to_json(${value})`
    return isConverted ? this.#convert(json, target, { as: 'difference', stored: true }) : value
  }

  /**
   * Builds the value, row or list of a reference in the type of a column path. A JSON null that is
   * only compared counts as NULL.
   */
  buildReference (
    reference: Reference,
    path: TypedPath,
    place: ValuePlace
  ): Fragment {
    if (path.resultType === 'text') return this.buildReferenceText(reference)
    const { parameter: of } = reference
    // It takes the type of the expression: Citus cannot compute a row of NULLs of that type.
    if (this.plain && of !== undefined && path.example !== undefined) {
      return operandSlot(of, TEXT, { column: path.column, isCompared: true, at: place.at })
    }
    if (path.resultType === 'json') {
      return this.#once(reference, sql`${this.#typed.nullableJson(reference)}::pg_catalog.jsonb`)
    }
    if (of !== undefined && path.example === undefined) {
      const { column } = path
      const type = this.writtenType(column, place)
      if (type !== undefined) {
        return this.#write(of, type, { column, place, isOperand: !place.stored })
      }
    }
    return this.#once(reference, this.#readReference(reference, path, place))
  }

  /** Builds the value of a reference as text. */
  buildReferenceText (reference: Reference): Fragment {
    return this.#once(reference, this.#references.textOf(reference))
  }

  /**
   * Builds JSON in the type of a column path. `joins`: the modifier that joins it to the value of
   * the column, and raises an issue of its own for a type that it cannot join.
   */
  buildJson (
    document: JsonDocument,
    path: TypedPath,
    { joins, ...meeting }: ValuePlace & { readonly joins?: JoiningName | undefined }
  ): Fragment {
    if (path.resultType === 'json') return this.#documentAs(document, sql`pg_catalog.jsonb`)
    const { column, resultType, example } = path
    const isColumn = resultType === 'column' && example === undefined
    const { stored, row, at } = meeting
    const type = isColumn ? this.writtenType(column, { stored }) : undefined
    if (type === undefined || (joins !== undefined && !canJoin(type, joins))) {
      return this.#convert(this.buildDocument(document), path, meeting)
    }
    const given = readGiven(document)
    const base = baseOf(type)
    if (given !== undefined) {
      return this.#write(given, type, { column, place: meeting, isOperand: !stored })
    }
    if (isJsonType(base)) return this.#documentAs(document, base.sql as Fragment)
    const place = { column, row, isCompared: !stored, at }
    return this.#convert(this.#buildMixed(document, type, place), path, meeting)
  }

  /** Builds JSON with references as JSON that PostgreSQL converts to a type. */
  #buildMixed (document: JsonDocument, type: Type, place: ReferencePlace): Fragment {
    const writer = this.#writerOf(document)
    const value = writer.write(document.value, type, place)
    return buildDocument({ ...document, value }, this.#references, writer)
  }

  convertDocument (
    document: JsonDocument,
    type: Fragment,
    { tree, label }: Parameters<ArgumentBuilder['convertDocument']>[2]
  ): Fragment {
    const reference = readWhole(document)
    const base = baseOf(tree)
    const place = { column: label }
    if (reference === undefined) {
      return isJsonType(base)
        ? this.#documentAs(document, type)
        : sql`${
          convertJson(this.#buildMixed(document, tree, place), base.sql ?? type)
        }::${type}`
    }
    if (isJsonType(base)) {
      return this.#once(reference, sql`${this.#typed.jsonTextOf(reference)}::${type}`)
    }
    const json = reference.parameter === undefined
      ? this.#typed.jsonOf(reference, tree, place)
      : this.#references.jsonOf(reference)
    return sql`${convertJson(json, base.sql ?? type)}::${type}`
  }

  /** A document in the type json or jsonb. With references it is a subquery, computed once. */
  #documentAs (document: JsonDocument, type: Fragment): Fragment {
    const given = readGiven(document)
    return given === undefined
      ? sql`(select ${this.buildDocument(document)}::${type})`
      : sql`${plainSlot(given, 'json')}::${type}`
  }

  /**
   * Builds the JSON null in the type of a column path. For a type other than json and jsonb that is
   * NULL, or with `refuse` a failure (`value`).
   */
  buildJsonNull (
    path: TypedPath,
    { refuse, at }: Pick<SlotPlace, 'at'> & { readonly refuse: boolean }
  ): Fragment {
    const { column, resultType, example } = path
    if (resultType === 'json') return sql`'null'::pg_catalog.jsonb`
    const type = example === undefined ? this.targetType(column) : undefined
    const base = type && baseOf(type)
    if (base !== undefined && isJsonType(base)) return sql`'null'::${base.sql as Fragment}`
    const raise = (): Fragment => this.needs.raiseIssue(
      { column: pathLabel(path), at, issue: { problem: 'null', path: [] } })
    const isRefused = refuse && !this.explain
    if (example === undefined && this.typeOf(column) === undefined) {
      // PostgreSQL finds out whether the column is json or jsonb. The result has the type of the
      // column.
      const value = sql`${this.row}.${identifier(column)}`
      const failure = isRefused && this.#call === undefined
        ? sql` else case when ${raise()} is null then ${value} end`
        : empty
      return sql`case when ${isJson(value)}
        then case when false then ${value} else 'null' end${failure} end`
    }
    return isRefused
      ? this.#convert(sql`${raise()}::pg_catalog.json`, path, {})
      : sql`null`
  }

  /**
   * Builds a list as an array of the type of a column path: of references to operations, and for
   * composites and arrays also of parameters.
   */
  buildList (document: JsonDocument, path: TypedPath, at: SlotPlace['at']): Fragment {
    const { column, resultType, example } = path
    const ofColumn = (): Type | undefined =>
      example === undefined ? this.targetType(column) : undefined
    const type = resultType === 'column' ? ofColumn() : RESULT_TYPES[resultType]
    const isUntyped = type === undefined || resultType !== 'column' || isJsonType(baseOf(type))
    const list = isUntyped
      ? this.buildDocument(document)
      : this.#buildTypedList(document, type, { column, isCompared: true, at })
    return type !== undefined && isReadAsText(type)
      ? elementsOf(list, type)
      : this.converter.convertList(list, path)
  }

  #buildTypedList (document: JsonDocument, type: Type, place: ReferencePlace): Fragment {
    const list = readWhole(document)
    if (list !== undefined) return this.#typed.listOf(list, type, place)
    const all = document.references.map(one => this.#typed.jsonOf(one, type, place))
    return sql`pg_catalog.array_to_json(array[${join(all)}]::pg_catalog.json[])`
  }
}

const TEXT = typeOfCast('text')

/** The types of paths into JSON. */
const RESULT_TYPES = { json: typeOfCast('jsonb'), text: TEXT }

/** Whether PostgreSQL reads the texts of a list as values of a type. */
function isReadAsText (type: Type): boolean {
  const { kind, oid } = baseOf(type)
  return nameWritten(type) !== undefined && kind !== 'array' && oid < FIRST_CREATED_OID
}

/** A JSON array as an array of a type. A subquery is computed once. */
function elementsOf (list: Fragment, type: Type): Fragment {
  const text = isJsonType(baseOf(type))
    ? sql`nullif(e.value::pg_catalog.text, 'null')`
    : textOfJson(sql`e.value`)
  return sql`(select array(select ${text}::${nameWritten(withoutLimits(type)) as Fragment}
    from pg_catalog.json_array_elements(${list}) as e (value)))`
}
