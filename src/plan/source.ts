/**
 * Plans `from`: a query of another table, or rows of a parameter, whose rows an operation uses. The
 * operation names their columns by a column, a path or an alias; the query returns those that are
 * named. An update or a delete is joined to them.
 */
import type { Static } from '@sinclair/typebox'
import type {
  Aggregate,
  InsertSource,
  JoinedParameter,
  Output
} from '../../schemas/operation.ts'
import { has } from '../json/parse.ts'
import { describeUnknown } from './check/describe.ts'
import { within, type Place, type PlanContext } from './context.ts'
import { documentOf } from './document.ts'
import {
  columnsOf,
  planTable,
  readPath,
  meetColumn,
  keyOfPath,
  toPath,
  type ReadColumn
} from './name.ts'
import type {
  OutputColumn,
  PlanNode,
  Source,
  DeleteNode,
  Join,
  UpdateNode,
  ColumnPath,
  Meeting,
  SourceField
} from './nodes.ts'
import {
  isAllColumns,
  isUnchanged,
  planOutput,
  planQuery,
  readOutput,
  refuseOthers
} from './output.ts'
import { findRowsParameter } from './parameter-rows.ts'
import { referTo } from './reference.ts'
import type { ParameterRows } from './parameter.ts'
import { fieldName } from './stored-values.ts'

/** The members of `from` that are read. Those that the operation does not have are undefined. */
type SourceMembers = Partial<Static<typeof InsertSource>>

type DeclaredColumns = ReadonlyArray<Output | Aggregate>

/** Rows that an operation uses. */
interface PlannedSource {
  /** Reads the name of a column of the rows. */
  readonly read: ReadColumn
  /** Returns the query, after all names were read; undefined after an issue of the table. */
  readonly finish: () => Source | undefined
}

/**
 * Plans a query whose shape is valid. Its rows have the declared columns, and all others that are
 * read. `isFixed`: no others. With groups or `distinct`, another column would change which rows
 * there are.
 */
function planSource (members: SourceMembers, place: Place): PlannedSource {
  const { context } = place
  const { columns } = members
  for (const name of ['group_by', 'having', 'distinct'] as const) {
    if (members[name] === undefined || columns !== undefined) continue
    const message = `"${name}" requires "columns".`
    context.addIssue('member_missing', [...place.path, 'columns'], message)
  }
  const table = planTable(members.table as string, within(place, 'table'))
  const declared = columns === undefined
    ? []
    : planOutput(columns as DeclaredColumns, { ...within(place, 'columns'), table })
  const query = planQuery(members, columns && declared, { ...place, table })
  const { distinct, groupBy } = query
  const aggregated = declared.some(({ aggregate }) => aggregate !== undefined)
  const isFixed = columns !== undefined &&
    (distinct || groupBy.length > 0 || members.having !== undefined || aggregated)
  const readColumn = columnsOf(table)
  const named = isFixed ? declared : declared.filter(column => !isAllColumns(column))
  const readFixed = declared.some(isAllColumns)
    ? readColumn
    : refuseOthers(declared, readColumn, OF)
  const others = new Map<string, OutputColumn>()
  const readOther: ReadColumn = (text, place) => {
    const path = readColumn(text, place)
    // A name with an arrow is free: no column and no alias that is read has one.
    const { name } = others.get(text) ??
      { name: path.keys.length === 0 ? path.column : `->${others.size}` }
    others.set(text, { name, path, aggregate: undefined })
    return { column: name, keys: [], resultType: path.resultType }
  }
  return {
    read: readOutput(named, isFixed ? readFixed : readOther),
    finish: () =>
      table && { kind: 'table', ...query, table, output: [...named, ...others.values()] }
  }
}

/** Whose columns are named, in messages. */
const OF = ' of "from"'

/** Returns what the operation reads with `from`. */
export function sourceOf (node: PlanNode): Source | undefined {
  if (node.kind === 'insert') return node.query?.source
  return node.kind === 'update' || node.kind === 'delete' ? node.join?.source : undefined
}

/** The member `from`: a query, or rows of a parameter, which only named batches have. */
type From = SourceMembers | RowsMembers

/** Plans the member `from`, whose shape is valid. */
export function planFrom (from: From, context: PlanContext): PlannedSource {
  const place = { context, path: ['from'] }
  return 'param' in from ? planRowsSource(from, place) : planSource(from, place)
}

export interface PlannedJoin {
  /** Reads a column of `from`. */
  readonly read: ReadColumn
  /** Returns the join, after all columns were read; undefined after an issue. */
  readonly finish: () => Join | undefined
}

/** Returns undefined if the operation has no `from`. */
export function planJoin (
  from: (From & Pick<Static<typeof JoinedParameter>, 'on'>) | undefined,
  context: PlanContext
): PlannedJoin | undefined {
  if (!has(context.operation, 'from')) return undefined
  if (from === undefined) return { read: readPath, finish: () => undefined }
  const { read, finish } = planFrom(from, context)
  const on = Object.entries(from.on).map(([column, name]) => {
    const path = ['from', 'on', column]
    context.nameColumn(context.table, column, path)
    return [column, read(name, { context, path }, meetColumn(column))] as const
  })
  return {
    read,
    finish () {
      const source = finish()
      return source && { source, on }
    }
  }
}

/** Adds the join to an operation. Returns undefined after an issue of the join. */
export function withJoin<Node extends UpdateNode | DeleteNode> (
  node: Node,
  joined: PlannedJoin | undefined
): Node | undefined {
  if (joined === undefined) return node
  const join = joined.finish()
  return join && { ...node, join }
}

// Plans `"from": {"param": "items"}`: the rows of a parameter, which an operation reads. Each value
// takes the type of the column that it meets, or that of a cast.

/** The members of `from` that are read. */
type RowsMembers = Omit<Static<typeof JoinedParameter>, 'on'>

/** Plans `{"param": "items"}`, whose shape is valid. */
function planRowsSource (
  { param, columns, group_by: groupBy }: RowsMembers,
  place: Place
): PlannedSource {
  const { context } = place
  const columnsPlace = within(place, 'columns')
  const parameter = findRowsParameter(param, within(place, 'param'))
  const fields = new Fields(parameter?.rows)
  const groups = columns === undefined ? undefined : groupBy
  if (groups !== groupBy) {
    context.addIssue('member_missing', columnsPlace.path, '"group_by" requires "columns".')
  }
  const declared = planOutput((columns ?? []) as DeclaredColumns, {
    ...columnsPlace,
    table: undefined
  })
  const isFixed = groups !== undefined || declared.some(({ aggregate }) => aggregate !== undefined)
  if (isFixed) checkGrouped(declared, groups, columnsPlace)
  const aliases: Aliases = new Map(
    isFixed ? [] : declared.filter(isUnchanged).map(({ name, path }) => [name, path])
  )
  const output = declared.flatMap((column, i) =>
    aliases.has(column.name) ? [] : [fields.addOutput(column, within(columnsPlace, i))]
  )
  const others = new Map<string, OutputColumn>()
  const readOther: ReadColumn = (text, place, meets) => {
    const key = JSON.stringify([text, meets])
    const other = others.get(key) ?? fields.addValue(readAlias(text, aliases), { meets, place })
    others.set(key, other)
    return toPath(other.name)
  }
  const read = readOutput(output, isFixed ? refuseOthers(output, readPath, OF) : readOther)
  return {
    read (text, place, meets) {
      fields.meet(output.find(({ name }) => name === text), meets)
      return read(text, place, meets)
    },
    finish () {
      if (parameter === undefined || !fields.checkTypes()) return undefined
      const { usedRows: { documents }, parameters } = context.batch
      const all = fields.all()
      const { size } = parameters as NonNullable<typeof parameters>
      const position = size + documents.push({ parameter, fields: all }) - 1
      return {
        kind: 'rows',
        fields: all,
        document: documentOf(referTo(param, { ...parameter, position })),
        output: [...output, ...others.values()],
        groupBy: fields.planGroups(groups, within(place, 'group_by'))
      }
    }
  }
}

/** The members that output columns return as they are, by the names of the columns. */
type Aliases = ReadonlyMap<string, ColumnPath>

/** Reads the name of a member or of an alias, or a path into it. */
function readAlias (text: string, aliases: Aliases): ColumnPath {
  const path = readPath(text)
  const alias = aliases.get(text) ?? aliases.get(path.column)
  if (alias === undefined || aliases.has(text)) return alias ?? path
  return { ...path, column: alias.column, keys: [...alias.keys, ...path.keys] }
}

/** Adds an issue for each column that is neither aggregated nor in `group_by`. */
function checkGrouped (
  columns: readonly OutputColumn[],
  groups: readonly string[] = [],
  { context, path }: Place
): void {
  const keys = new Set(groups.map(text => keyOfPath(readPath(text))))
  for (const [i, { path: of, aggregate, name }] of columns.entries()) {
    if (of === undefined || aggregate !== undefined || keys.has(keyOfPath(of))) continue
    const message = `"${name}" must be in "group_by", or be aggregated.`
    context.addIssue('member_invalid', [...path, i], message)
  }
}

/** A field whose type may not be known yet. */
interface OpenField extends Omit<SourceField, 'type'> {
  type: SourceField['type'] | undefined
  /** Where the issue is reported if the field gets no type. */
  readonly place: Place
}

/** Collects the values that are read of each row. */
class Fields {
  readonly #rows: ParameterRows | undefined
  readonly #fields: OpenField[] = []

  /** `rows`: undefined after an issue. */
  constructor (rows: ParameterRows | undefined) {
    this.#rows = rows
  }

  /** Adds the field of a declared output column. Returns the column, which reads the field. */
  addOutput (column: OutputColumn, place: Place): OutputColumn {
    const { context, path: at } = place
    const { path, aggregate, cast } = column
    if (isAllColumns(column)) {
      context.addIssue('member_invalid', at, '"*" is not possible with "param"; name the columns.')
    }
    // count(*)
    if (path === undefined) return column
    const type = aggregate === 'count' ? cast ?? 'jsonb' : cast
    return { ...column, path: toPath(this.#add(path, { type, place })), cast: undefined }
  }

  /** Adds a value that is read where it meets a column. */
  addValue (
    path: ColumnPath,
    { meets, place }: { readonly meets: Meeting | undefined, readonly place: Place }
  ): OutputColumn {
    const name = this.#add(path, { type: meets, place })
    // A name with an arrow is free: no declared column has one.
    return { name: `->${name}`, path: toPath(name), aggregate: undefined }
  }

  #add (path: ColumnPath, { type, place }: Pick<OpenField, 'type' | 'place'>): string {
    const name = fieldName(this.#fields.length)
    this.#fields.push({ name, path, type, place })
    const declared = this.#rows?.declared
    if (declared?.has(path.column) === false) {
      const message = describeUnknown('member', path.column, [...declared])
      place.context.addIssue('member_invalid', place.path, message)
    }
    return name
  }

  /** A declared column takes its type from the first column that its values meet. */
  meet (column: OutputColumn | undefined, meets: Meeting | undefined): void {
    if (column === undefined || !isUnchanged(column)) return
    const field = this.#fields.find(({ name }) => name === column.path.column) as OpenField
    field.type ??= meets
  }

  /** Returns the fields to group by. Each must also be returned by an output column. */
  planGroups (groups: readonly string[] = [], { context, path: at }: Place): ColumnPath[] {
    return groups.flatMap((text, i) => {
      const key = keyOfPath(readPath(text))
      const field = this.#fields.find(({ path }) => keyOfPath(path) === key)
      if (field !== undefined) return [toPath(field.name)]
      const message = `"${text}" must also be in "columns".`
      context.addIssue('member_invalid', [...at, i], message)
      return []
    })
  }

  /** Adds an issue for each field without a type. */
  checkTypes (): boolean {
    const untyped = this.#fields.filter(({ type }) => type === undefined)
    for (const { path: { column }, place: { context, path } } of untyped) {
      context.addIssue(
        'member_invalid',
        path,
        `"${column}" meets no column whose type it could take. Add {"column": "${column}", ` +
          '"cast": …, "as": …} to "columns" of "from".'
      )
    }
    return untyped.length === 0
  }

  /** Returns all fields, at least one: PostgreSQL cannot convert JSON to rows without columns. */
  all (): readonly SourceField[] {
    if (this.#fields.length === 0) return [{ name: fieldName(0), path: toPath(''), type: 'text' }]
    return this.#fields.map(({ name, path, type }) => ({ name, path, type: type as Meeting }))
  }
}
