/**
 * Builds the values of a statement, in which the types of columns are named.
 */
import { TypeOid } from '../../catalogue/built-in.ts'
import type { Type } from '../../catalogue/type.ts'
import type { JoiningName } from '../../../schemas/modifier.ts'
import {
  empty,
  identifier,
  join,
  parameter,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import { parseJson, textOf, type Json } from '../../json/parse.ts'
import { shapeOf } from '../../plan/document.ts'
import { isValue, shapeOfReference } from '../../plan/reference.ts'
import type { Parameter } from '../../plan/shape.ts'
import { toPath } from '../../plan/name.ts'
import type {
  CallNode,
  Cell,
  DataCell,
  JsonDocument,
  Reference,
  StoredJson,
  TableName,
  UncertainColumn
} from '../../plan/nodes.ts'
import { textOfParameter } from '../../plan/fingerprint.ts'
import { isPlain, writeMember } from '../../values/write.ts'
import { raiseText, type ValueIssue } from '../statement/raised-error.ts'
import { nullRow } from '../statement/table.ts'
import { nullRowOfCall, type ArgumentBuilder } from './call.ts'
import type { RowColumns } from './column.ts'
import { buildDocument, isJsonNull } from './documents.ts'
import { KnownColumns, NO_COLUMNS, isNumber } from './known-columns.ts'
import type { References } from './references.ts'
import type { StatementNeeds } from './statement-needs.ts'
import {
  JsonConverter,
  convertJson,
  jsonElements,
  onlyScalar,
  pathLabel,
  type Conversion,
  type TypedAs,
  type TypedPath
} from './typed-json.ts'
import { rowsSlot, slot, type SlotPlace } from '../statement/slot.ts'
import { isJson } from './value-checks.ts'
import { canJoin, isJsonType, isDecimal, nameWritten, type ColumnType } from './value-type.ts'

/** Converts a text to a type. The owner of an enum can define the cast from text. */
function convertText (text: Fragment, { sql: type, isEnum }: ColumnType): Fragment {
  return isEnum ? convertJson(text, type) : sql`${text}::${type}`
}

function jsonParameter (value: Json): Fragment {
  return sql`${parameter(JSON.stringify(value))}::pg_catalog.json`
}

/** `stored`: the value is assigned, and not only compared. */
interface ReferenceOptions {
  readonly stored: boolean
  readonly as?: TypedAs
}

/** A field of rows, which is a value of a column. */
export interface WrittenField {
  readonly name: string
  readonly column: string
  readonly as: TypedAs | 'text'
  readonly stored: boolean
}

interface StoredConversion extends Pick<Conversion, 'as' | 'shape'> {
  /** The value is assigned, and not only compared. */
  readonly stored?: boolean | undefined
}

export class TypedValues extends KnownColumns implements ArgumentBuilder, RowColumns {
  /** The table whose columns the values meet. */
  readonly table: TableName
  readonly row: Fragment
  /** Whether clients see the plan of the statement, so it raises no errors of ours. */
  readonly explain: boolean
  readonly checkValues: boolean
  readonly converter: JsonConverter
  /** The operation whose function returns the rows. */
  readonly #call: CallNode | undefined
  readonly #references: References

  constructor (
    table: TableName,
    references: References,
    needs: StatementNeeds,
    row = sql`t`
  ) {
    // A table that a condition reads can have the name of the function.
    const call = table === needs.facts.call?.table ? needs.facts.call : undefined
    super(call === undefined ? needs.facts.findColumns(table) : NO_COLUMNS, needs)
    this.table = table
    this.row = row
    this.#call = call
    this.explain = needs.facts.explain
    this.checkValues = needs.facts.checkValues
    this.#references = references
    this.converter = new JsonConverter(table, needs, () =>
      call === undefined
        ? sql`pg_catalog.json_populate_record(${nullRow(table)}, '{}')`
        : nullRowOfCall(call, this))
  }

  /** The columns of the rows of `from`. */
  get source (): RowColumns {
    return this.needs.facts.source
  }

  buildDocument (document: JsonDocument): Fragment {
    return buildDocument(document, this.#references)
  }

  /**
   * Builds a source of the rows of a JSON array, with these columns of the table. Where PostgreSQL
   * cannot read them as rows of the table, a column with a domain has the type of the domain's
   * base.
   */
  buildTableRows (json: Fragment, columns: readonly string[]): Fragment {
    return this.takeJson(columns)
      ? sql`pg_catalog.json_populate_recordset(${nullRow(this.table)}, ${json})`
      : sql`(${this.converter.buildColumnRows(json, columns)})`
  }

  /** Builds values that meet columns of another table, whose row gets a name of its own. */
  ofTable (table: TableName): TypedValues {
    return new TypedValues(table, this.#references, this.needs, this.needs.nameRow())
  }

  /** Whether the statement is for Citus. */
  get distributed (): boolean {
    return this.needs.facts.distributed
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
   * Returns conditions, which contain no column of the table, where they are evaluated once. On
   * Citus they are a CTE: it refuses CASE in the condition of a change, and a worker
   * does not have the settings of earlier operations.
   */
  evaluateOnce (conditions: readonly Fragment[]): readonly Fragment[] {
    if (!this.distributed || conditions.length === 0) return conditions
    const all = this.needs.addRows(sql`select ${join(conditions, sql` and `)} as ok`)
    return [sql`(select c.ok from ${all} as c)`]
  }

  /**
   * Builds a value of a row that is stored. `always`: it is a value of a row that is inserted.
   * PostgreSQL computes it in any case, and so finds that a referenced row is missing: its setting
   * is not set, or is no JSON. `as`: how it is read, see TypedAs. `row`: the position in `values`.
   */
  buildCell (
    cell: Cell,
    column: string,
    { always, as = 'value', stored = true, row }: {
      readonly always: boolean
      readonly as?: TypedAs | 'text'
      readonly stored?: boolean
      readonly row?: number | undefined
    }
  ): Fragment {
    const path = toPath(column)
    if (as === 'text') {
      return cell.kind === 'reference'
        ? this.#references.textOf(cell)
        : sql`${parameter((cell as DataCell).value as string)}::pg_catalog.text`
    }
    if (cell.kind === 'reference') {
      return as === 'difference'
        ? this.buildReference(cell, path, { stored: true, as })
        : this.storedReference(cell, column, { checked: always, row })
    }
    if (cell.kind === 'mixed') return this.buildJson(cell.document, path, { stored })
    const { value } = cell
    const type = this.writtenType(column, { as, stored })
    return type === undefined
      ? this.#convert(jsonParameter(value), path, { as, shape: shapeOf(value), stored })
      : this.#write(value, type, { column, row, as, stored })
  }

  /**
   * Returns the document of rows with its data in the types of the columns, and the columns of
   * which it may have values that their types cannot store. `positions`: those in `values`.
   */
  writeRows (
    rows: StoredJson,
    fields: readonly WrittenField[],
    positions: readonly number[]
  ): Pick<StoredJson, 'document' | 'uncertainColumns'> {
    const { document: sent, uncertainColumns } = rows
    if (rows.rewrite === undefined) return rows
    const nested = new Set(uncertainColumns.map(({ column }) => column))
    const rewriters = new Map<string, (value: Json, row: number) => Json>()
    for (const field of fields) {
      const { name, column } = field
      const type = this.#typeOfField(field)
      if (type === undefined) continue
      const isNested = nested.has(name)
      if (sent.references.length === 0) nested.delete(name)
      if (!isNested && isPlain(type)) continue
      rewriters.set(name, (value, row) => writeMember(value, type, issue =>
        this.needs.refused.push({ column, row: positions[row], issue })))
    }
    return {
      document: rows.rewrite(rewriters),
      uncertainColumns: uncertainColumns.filter(({ column }) => nested.has(column))
    }
  }

  /**
   * Builds the rows of a parameter as JSON, whose members are written in the types of the columns.
   */
  buildParameterRows ({ position }: Parameter, fields: readonly WrittenField[]): Fragment {
    const members = fields.flatMap(field => {
      const { name, column } = field
      const type = this.#typeOfField(field)
      return type === undefined ? [] : [{ name, column, type }]
    })
    return sql`${rowsSlot(position, members)}::pg_catalog.json`
  }

  /** The type in which a field is written. */
  #typeOfField ({ column, as, stored }: WrittenField): Type | undefined {
    return as === 'text' ? undefined : this.writtenType(column, { as, stored })
  }

  /**
   * Builds the operand of a modifier, a number. PostgreSQL gives the parameter its type, and rounds
   * the result; the operand itself has no more digits than the column.
   */
  buildOperand (json: string, column: string, as: TypedAs = 'value'): Fragment {
    this.addParameterType(column)
    const value = parseJson(Buffer.from(json))
    const type = this.writtenType(column, { as, stored: true })
    const isChecked = type !== undefined && (as === 'difference' || isDecimal(type))
    return isChecked ? slot(value, type, { column }) : parameter(textOf(value))
  }

  /** Builds a value of the request that is written in the type of a column. */
  #write (
    value: Json,
    type: Type,
    { column, row, as = 'value', stored }: SlotPlace & Pick<StoredConversion, 'as' | 'stored'>
  ): Fragment {
    this.addParameterType(column)
    const text = slot(value, type, { column, row, isCompared: stored !== true })
    const name = nameWritten(type)
    if (name !== undefined) return sql`${text}::${name}`
    const json = sql`pg_catalog.to_json(${text}::pg_catalog.text)`
    return this.#convert(json, toPath(column), { as, shape: 'scalar', stored })
  }

  /** The value of a reference that is stored, in the type of a column. */
  storedReference (
    reference: Reference,
    column: string,
    { checked = false, row }: { readonly checked?: boolean, readonly row?: number | undefined } = {}
  ): Fragment {
    const written = this.#writeParameter(reference, { column, row, stored: true })
    if (written !== undefined) return written
    const type = this.typeOf(column)
    if (!this.checkValues && type !== undefined && this.#references.isTyped(reference, type)) {
      // The coordinator of Citus computes the values of inserted rows, but no CASE or subquery.
      const isSimple = checked && reference.otherwise === undefined && !type.isEnum &&
        this.#references.readsDirectly
      const value = this.#typedValue(reference, type, checked)
      return isSimple ? value : this.#onCoordinator(value, type.isEnum ? undefined : reference)
    }
    const path = toPath(column)
    const json = this.#jsonFor(path, reference, checked)
    const value = this.#convert(json, path, { shape: shapeOfReference(reference), stored: true })
    return this.#orJsonNull(value, reference, path)
  }

  /** Builds the value of a parameter that is stored; undefined: its type is not known. */
  #writeParameter (
    { parameter: of, otherwise }: Reference,
    place: SlotPlace & Pick<StoredConversion, 'as' | 'stored'>
  ): Fragment | undefined {
    if (of === undefined || otherwise !== undefined) return undefined
    const { column, as = 'value' } = place
    const type = this.writtenType(column, { as, stored: true })
    return type && this.#write(textOfParameter(of), type, place)
  }

  /** Registers the references that a column meets, before they are built. */
  meet (column: string, references: readonly Reference[]): void {
    if (this.isHstore(column)) this.#references.readAsHstore(references)
  }

  meetAll (columns: ReadonlyArray<Pick<UncertainColumn, 'column' | 'references'>>): void {
    for (const { column, references } of columns) {
      this.meet(column, references.map(({ reference }) => reference))
    }
  }

  /** The JSON of a reference for a column. */
  #jsonFor ({ column }: TypedPath, reference: Reference, checked = false): Fragment {
    this.meet(column, [reference])
    const json = this.#references.jsonOf(reference, { checked })
    return !this.checkValues && !this.explain && this.isHidden(column, reference)
      ? onlyScalar(json)
      : json
  }

  /**
   * Whether the value of a column does not show that a reference read an array or an object: it, or
   * one of a list.
   */
  isHidden (column: string, reference: Reference): boolean {
    const isList = reference.row === '*'
    const mayBeList = isList || shapeOfReference(reference) === 'reference'
    if (!mayBeList || !this.isTime(column)) return false
    const type = this.typeOf(column)
    const one = isList ? { ...reference, row: 0 } : reference
    return type === undefined || !this.#references.isTyped(one, type)
  }

  /** Whether that is so for a reference of a row. */
  areHidden (column: string, { references }: Pick<UncertainColumn, 'references'>): boolean {
    return references.some(({ reference }) => this.isHidden(column, reference))
  }

  /** With value checks: NULL of a value that a reference reads may have been the JSON null. */
  #orJsonNull (value: Fragment, reference: Reference, path: TypedPath): Fragment {
    if (!this.checkValues || !isValue(reference)) return value
    const jsonNull = this.buildJsonNull(path, { refuse: false })
    return this.#onCoordinator(
      sql`case when ${isJsonNull(reference)} then ${jsonNull} else ${value} end`
    )
  }

  /**
   * On Citus, makes a value a CTE that the coordinator computes: a worker does not have the
   * settings that references read. It does have the value of a reference to a parameter.
   */
  #onCoordinator (value: Fragment, reference?: Reference): Fragment {
    const isParameter = reference?.parameter !== undefined && reference.otherwise === undefined
    return this.distributed && !isParameter ? this.computeFirst(value) : value
  }

  /** A subquery with the value of a reference, which is computed once. */
  #subquery (value: Fragment, reference: Reference): Fragment {
    return this.#onCoordinator(sql`(select ${value})`, reference)
  }

  /**
   * Converts JSON to the type of a column path, without its length or precision, as PostgreSQL
   * converts the members of a record. What it may drop from JSON of this shape is checked.
   */
  #convert (
    json: Fragment,
    path: TypedPath,
    { as = 'value', shape, stored = false }: StoredConversion
  ): Fragment {
    const { column, resultType, example } = path
    const isColumn = resultType === 'column' && example === undefined && as === 'value'
    const name = isColumn ? this.nameOf(column) : undefined
    if (name !== undefined) this.addParameterType(column)
    // The hint of an error names the column, too.
    const value = name === undefined
      ? this.converter.convert(json, path, {
        as,
        shape,
        byModifier: stored && isColumn && this.isReadByModifier(column)
      })
      : this.converter.convertNamed(json, name, { shape, label: pathLabel(path), member: column })
    const computed = this.computeFirst(value)
    if (shape !== 'scalar') this.needs.converted.push(computed)
    return computed
  }

  /** Returns a value that depends on no row of the statement; see StatementNeeds. */
  computeFirst (value: Fragment): Fragment {
    if (!this.distributed) return value
    return sql`(select c.value from ${this.needs.addRows(sql`select ${value} as value`)} as c)`
  }

  /**
   * Builds the value, row or list of a reference in the type of a column path. A value that is only
   * compared is not checked. There the JSON null counts as NULL.
   */
  buildReference (
    reference: Reference,
    path: TypedPath,
    { stored, as = 'value' }: ReferenceOptions
  ): Fragment {
    if (path.resultType === 'text') return this.buildReferenceText(reference)
    if (path.resultType === 'json') {
      const json = sql`${this.#references.jsonTextOf(reference)}::pg_catalog.jsonb`
      return this.#subquery(json, reference)
    }
    const written = stored && path.example === undefined
      ? this.#writeParameter(reference, { column: path.column, as, stored })
      : undefined
    if (written !== undefined) return written
    const type = this.typeOf(path.column, path.example)
    const isCompared = as === 'difference' || (isValue(reference) && !stored)
    const isExact = type !== undefined && (as === 'value' || isNumber(type)) &&
      (this.#references.isTyped(reference, type) || (isCompared && isJsonType(type)))
    // A subquery is computed once, and conditions on it can use an index.
    if (isExact && !this.checkValues) {
      return this.#subquery(this.#typedValue(reference, type), reference)
    }
    const isChecked = !isCompared || this.isTime(path.column)
    const value = this.#convert(this.#jsonFor(path, reference), path, {
      as,
      shape: isChecked ? shapeOfReference(reference) : 'scalar',
      stored
    })
    return isCompared ? value : this.#orJsonNull(value, reference, path)
  }

  /** Builds the value of a reference as text. */
  buildReferenceText (reference: Reference): Fragment {
    return this.#subquery(this.#references.textOf(reference), reference)
  }

  /**
   * Builds JSON in the type of a column path. `joins`: the modifier that joins it to the value of
   * the column, and raises an issue of its own for a type that it cannot join.
   */
  buildJson (
    document: JsonDocument,
    path: TypedPath,
    { stored = false, joins }: Pick<StoredConversion, 'stored'> & {
      readonly joins?: JoiningName | undefined
    }
  ): Fragment {
    if (this.checkValues && document.references.length > 0) {
      return this.#convert(this.buildDocument(document), path, { shape: document.shape, stored })
    }
    if (path.resultType === 'json') return this.#documentAs(document, sql`pg_catalog.jsonb`)
    const { pieces: [json = ''], references, shape } = document
    const { column, resultType, example } = path
    const isColumn = resultType === 'column' && example === undefined
    const written = isColumn && references.length === 0
      ? this.writtenType(column, { stored })
      : undefined
    if (written !== undefined && (joins === undefined || canJoin(written, joins))) {
      return this.#write(parseJson(Buffer.from(json)), written, { column, stored })
    }
    const type = resultType === 'text' ? undefined : this.typeOf(column, example)
    if (type !== undefined && isJsonType(type)) return this.#documentAs(document, type.sql)
    return this.#convert(this.buildDocument(document), path, { shape, stored })
  }

  convertDocument (
    document: JsonDocument,
    type: Fragment,
    { isJson, isTime, label }: Parameters<ArgumentBuilder['convertDocument']>[2]
  ): Fragment {
    const { shape, pieces, references: [reference] } = document
    const isReference = reference !== undefined && pieces.every(piece => piece === '')
    if (isJson && isReference && isValue(reference)) {
      return this.#jsonArgument(reference, type, label)
    }
    if (isJson && !this.checkValues) return this.#documentAs(document, type)
    const json = this.buildDocument(document)
    const isHidden = isTime && shape === 'reference' && !this.checkValues && !this.explain
    return this.converter.convertNamed(isHidden ? onlyScalar(json) : json, type, { shape, label })
  }

  /** An argument of type json or jsonb: a reference to NULL is NULL, and not the JSON null. */
  #jsonArgument (reference: Reference, type: Fragment, label: string): Fragment {
    const value = sql`${this.#references.jsonTextOf(reference)}::${type}`
    if (this.checkValues) {
      const jsonNull = sql`case when ${isJsonNull(reference)} then 'null'::${type}`
      return this.#subquery(sql`${jsonNull} else ${value} end`, reference)
    }
    const asJson = { oid: TypeOid.json, sql: type, isEnum: false }
    return this.explain || this.#references.isTyped(reference, asJson)
      ? this.#subquery(value, reference)
      : this.converter.convertNamed(this.#references.jsonOf(reference), type, {
        shape: 'reference',
        label
      })
  }

  /** A document in the type json or jsonb. With references it is a subquery, computed once. */
  #documentAs (document: JsonDocument, type: Fragment): Fragment {
    const { pieces: [json = ''], references } = document
    return references.length === 0
      ? sql`${parameter(json)}::${type}`
      : this.#onCoordinator(sql`(select ${this.buildDocument(document)}::${type})`)
  }

  /**
   * Builds the JSON null in the type of a column path. For a type other than json and jsonb that is
   * NULL, or with `refuse` a failure (`value`).
   */
  buildJsonNull (path: TypedPath, { refuse }: { readonly refuse: boolean }): Fragment {
    const { column, resultType, example } = path
    if (resultType === 'json') return sql`'null'::pg_catalog.jsonb`
    const type = this.typeOf(column, example)
    if (type !== undefined && isJsonType(type)) return sql`'null'::${type.sql}`
    const issue: ValueIssue = { problem: 'null', path: ['', pathLabel(path)] }
    const text = sql`${parameter(JSON.stringify(issue))}::pg_catalog.text`
    const isRefused = refuse && !this.explain
    if (example === undefined && !this.has(column)) {
      // PostgreSQL finds out whether the column is json or jsonb. The result has the type of the
      // column.
      const value = sql`${this.row}.${identifier(column)}`
      // Not a constant; see raiseNumber.
      const issue = sql`${text} operator(pg_catalog.||)
        pg_catalog.left(pg_catalog.pg_typeof(${value})::pg_catalog.text, 0)`
      const failure = isRefused && this.#call === undefined
        ? sql` else case when ${raiseText('value', issue)} is null then null end`
        : empty
      return sql`case when ${isJson(value)}
        then case when false then ${value} else 'null' end${failure} end`
    }
    return isRefused
      ? this.#convert(sql`${raiseText('value', text)}::pg_catalog.json`, path, { shape: 'scalar' })
      : sql`null`
  }

  /** Builds a JSON array as an array of the type of a column path. */
  buildList (document: JsonDocument, path: TypedPath): Fragment {
    if (path.resultType !== 'column') {
      return this.#onCoordinator(jsonElements(this.buildDocument(document), path.resultType))
    }
    const { pieces, references } = document
    this.meet(path.column, references)
    const known = this.typeOf(path.column, path.example)
    const isHidden = !this.explain && references.some(one => this.isHidden(path.column, one))
    const type = isHidden ? undefined : known
    if (type === undefined || isJsonType(type)) {
      const place = ['', pathLabel(path)]
      const issue: ValueIssue = { problem: 'list', path: place, type: 'of the column' }
      const json = this.buildDocument(document)
      return this.computeFirst(this.converter.convertList(json, path, isHidden ? issue : undefined))
    }
    const [list] = references as readonly [Reference, ...Reference[]]
    // A subquery is computed once.
    if (pieces.every(piece => piece === '')) {
      return this.computeFirst(sql`(select array(select ${convertText(sql`e.value`, type)} from ${
        this.#references.listElements(list)
      } as e (value)))`)
    }
    const values = references.map(reference =>
      this.#references.isTyped(reference, type)
        ? this.#typedValue(reference, type)
        : convertJson(this.#references.jsonOf(reference), type.sql)
    )
    return this.computeFirst(sql`(select array[${join(values, sql`, `)}])`)
  }

  /** The value of a reference in the type of a column. */
  #typedValue (reference: Reference, type: ColumnType, checked = false): Fragment {
    const references = this.#references
    if (isJsonType(type)) return sql`${references.jsonTextOf(reference, { checked })}::${type.sql}`
    const { parameter: of } = reference
    if (of !== undefined) return sql`${parameter(textOfParameter(of))}::${type.sql}`
    return convertText(references.textOf(reference, { checked }), type)
  }
}
