/**
 * Builds the UPDATEs of a keyed update, one for each group of rows:
 *
 *     update "articles" as t set "price" = x."f3" from x0 as x where t."sku" = x."f2"
 *
 * `x0` has the rows of the group: their position in `values`, their keys, and their new values or
 * the operands of modifiers. They have the types of the columns without length, precision or
 * domain, so that a key compares like the operand of a condition; an assignment converts to the
 * exact type. Conditions on a CTE can use an index.
 */
import { modifiers, type Modifier } from '../../schemas/modifier.ts'
import type { KeyedGroup, KeyedUpdateNode, RowField, UncertainColumn } from '../plan/nodes.ts'
import { toPath } from '../plan/name.ts'
import { fieldName } from '../plan/stored-values.ts'
import { applyModifier, buildAssignment } from './assignment.ts'
import type { Check } from './checks.ts'
import type { CteBuilder } from './cte-builder.ts'
import { buildFieldRows, type RowsBuilder } from './field-rows.ts'
import { buildConditions } from './filter.ts'
import { empty, identifier, join, parameter, sql, type Fragment } from './fragment.ts'
import { buildSkipped, gateChecks } from './gate.ts'
import { raise, raiseNumber, raiseText } from './marker.ts'
import { jsonNullRows } from './reference.ts'
import { tableName } from './table.ts'
import { typeExample, type TypedAs } from './typed-json.ts'
import type { ChangeBuilder, ValueBuilder } from './value-builder.ts'

const AND = sql` and `
const COMMA = sql`, `

/** The name of the position among the columns of the rows. */
export const POSITION_NAME: Fragment = identifier(fieldName(0))

/** In `returning`: the position of a row in `values`. */
export const rowPosition: Fragment = sql`x.${POSITION_NAME}`

/** The names of the columns of the rows: the position and the fields. */
export function rowColumns ({ fields }: KeyedGroup): Fragment {
  return join([POSITION_NAME, ...fields.map(({ name }) => identifier(name))], COMMA)
}

/** Builds the statement of each group, without `returning`. */
export function buildKeyedUpdates (node: KeyedUpdateNode, ctes: CteBuilder): readonly Fragment[] {
  const rows = node.groups.map(group => ctes.addRows(buildKeyedRows(group, node, ctes)))
  const distinct = ctes.explain
    ? []
    : checkDistinct(node, rows).map(query => sql`(select * from ${ctes.addRows(query)})`)
  const conditions = [
    ...buildConditions(node.where, ctes),
    ...ctes.evaluateOnce(gateChecks(node, distinct))
  ]
  return node.groups.map((group, i) =>
    buildKeyedUpdate(node, group, {
      source: rows[i] as Fragment,
      conditions,
      values: ctes,
      read: field => readStored(field, group, ctes)
    })
  )
}

interface UpdateParts {
  /** The rows of the group. */
  readonly source: Fragment
  readonly conditions: readonly Fragment[]
  readonly values: ChangeBuilder
  /** Builds the value of a field that is stored. */
  readonly read?: (field: RowField) => Fragment
}

/** Builds the statement of a group, without `returning`. */
export function buildKeyedUpdate (
  { table }: KeyedUpdateNode,
  group: KeyedGroup,
  { source, conditions, values, read = readField }: UpdateParts
): Fragment {
  const assignments = [
    ...group.fields.flatMap(field => {
      const { column, modifier } = field
      if (modifier === undefined) return []
      return [sql`${identifier(column)} = ${
        applyModifier({ column, modifier }, read(field), values)
      }`]
    }),
    ...group.computed.map(value => buildAssignment(value, values))
  ]
  const matches = keysOf(group).map(field =>
    sql`${values.row}.${identifier(field.column)} = ${readField(field)}`
  )
  return sql`update ${tableName(table)} as t set ${join(assignments, COMMA)} from ${source} as x
    where ${join([...matches, ...conditions], AND)}`
}

function keysOf ({ fields }: KeyedGroup): readonly RowField[] {
  return fields.filter(({ modifier }) => modifier === undefined)
}

function readField ({ name }: RowField): Fragment {
  return sql`x.${identifier(name)}`
}

/** Builds the query of the rows of a group, with the types of its fields. */
export function buildKeyedRows (
  group: KeyedGroup,
  node: KeyedUpdateNode,
  ctes: RowsBuilder & Pick<ChangeBuilder, 'explain'>
): Fragment {
  const { fields, positions, rows: { document } } = group
  const uncertain = uncertainFields(group).map(([{ name, column }, uncertain]) => {
    const example = typeExample(toPath(column), ctes.table, 'value')
    return [uncertain, { member: name, example, label: column }] as const
  })
  const examples = fields.map(field =>
    readAs(field) === 'text'
      ? sql`null::pg_catalog.text`
      : typeExample(toPath(field.column), ctes.table, readAs(field) as TypedAs)
  )
  return buildFieldRows({
    document,
    examples: [sql`null::pg_catalog.int4`, ...examples],
    uncertain,
    positions,
    conditions: ctes.explain ? [] : checkKeys(group, node)
  }, ctes)
}

/** How a field is read; see TypedAs. */
export function readAs ({ modifier }: RowField): TypedAs | 'text' {
  const { reads }: Pick<Modifier, 'reads'> = modifiers[modifier ?? '$value']
  return reads === 'difference' || reads === 'text' ? reads : 'value'
}

/** The fields whose value the type may be unable to store. */
function uncertainFields (
  { fields, rows: { uncertainColumns } }: KeyedGroup
): ReadonlyArray<readonly [RowField, UncertainColumn]> {
  return fields.flatMap(field => {
    const found = uncertainColumns.find(({ column }) => column === field.name)
    return found === undefined || readAs(field) !== 'value' ? [] : [[field, found] as const]
  })
}

/** The value of a field, or the JSON null where a reference has that value. */
export function readStored (
  field: RowField,
  group: KeyedGroup,
  values: ValueBuilder & Pick<RowsBuilder, 'checkValues'>
): Fragment {
  const value = readField(field)
  const [, uncertain] = uncertainFields(group).find(([{ name }]) => name === field.name) ?? []
  if (!values.checkValues || uncertain === undefined || uncertain.references.length === 0) {
    return value
  }
  const references = uncertain.references.map(({ row, reference }) =>
    ({ row: group.positions[row] as number, reference })
  )
  return sql`case when ${rowPosition} operator(pg_catalog.+) 1 = any (${
    jsonNullRows(references)
  }) then ${values.buildJsonNull(toPath(field.column), { refuse: false })} else ${value} end`
}

/**
 * Builds conditions on the rows that are true, or fail: a reference in a key is NULL. PostgreSQL
 * may evaluate them while it plans the statement, also if the operation is skipped.
 */
export function checkKeys (group: KeyedGroup, node: KeyedUpdateNode): readonly Fragment[] {
  const keys = keysOf(group)
  const { rows } = group
  const known = rows.cells === undefined
    ? rows.document.references.length === 0
    : rows.cells.every(row => keys.every(({ name }) => row.get(name)?.kind === 'data'))
  if (known) return []
  const missing = keys.map(field =>
    sql` when ${readField(field)} is null then ${parameter(field.column)}::pg_catalog.text`
  )
  const fault = sql`pg_catalog.json_build_object('problem', 'key', 'path',
    pg_catalog.json_build_array(${rowPosition}::pg_catalog.text, case${join(missing, empty)} end))`
  const named = join(keys.map(field => sql`${readField(field)} is not null`), AND)
  return [sql`case when ${buildSkipped(node)}${named}
    then true else ${raiseText('value', sql`${fault}::pg_catalog.text`)} is null end`]
}

/**
 * Builds a query that returns true, or fails with the marker `duplicate`: two rows have the same
 * key. PostgreSQL would use one of them. Equality is that of the columns: the rows have their types
 * and collations. `rows` are the rows of the groups. Of one row there is nothing to check.
 */
export function checkDistinct (
  { groups }: KeyedUpdateNode,
  rows: readonly Fragment[]
): readonly Fragment[] {
  const [group] = groups as readonly [KeyedGroup, ...KeyedGroup[]]
  if (groups.length === 1 && group.positions.length === 1) return []
  const keys = join(keysOf(group).map(({ name }) => identifier(name)), COMMA)
  const all = join(
    rows.map(source => sql`select ${POSITION_NAME}, ${keys} from ${source}`),
    sql` union all `
  )
  return [sql`select case when q.position is null then true
      else ${raiseNumber('duplicate', sql`q.position`)} is null end
    from (select pg_catalog.min(d.position) as position from (
      select pg_catalog.max(${POSITION_NAME}) as position from (${all}) as k group by ${keys}
        having pg_catalog.count(*) operator(pg_catalog.>) 1) as d) as q`]
}

/** Fails if a key meets several rows. `positions`: a query that returns those of all rows. */
export function buildAmbiguityCheck (positions: Fragment): Check {
  return {
    when: sql`(select pg_catalog.count(*) operator(pg_catalog.>) pg_catalog.count(distinct u.n)
      from (${positions}) as u (n))`,
    then: raise('ambiguous')
  }
}
