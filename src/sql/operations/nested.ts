/**
 * Builds a select whose rows have rows of other tables as members. Each level reads its rows first,
 * with their order and limits, and then, for each of them, those that belong to it:
 *
 *     select s.row from (
 *       select p.*::record as row, sum(1 + n0.n) over (rows unbounded preceding) as total
 *       from (select t.*::"orders" as row, t."id" as "n0" from "orders" as t …) as b0
 *         cross join lateral (select json_agg(…) as rows, count(*) as n from …) as n0
 *         cross join lateral (select (b0.row).*, n0.rows as "items") as p
 *     ) as s where <total is not too large>
 *
 * The total counts the rows of all levels so far, so a small request cannot read without limit.
 */
import { empty, identifier, integer, join, sql, type Fragment } from '../../fragment/fragment.ts'
import type { NestedSelect } from '../../plan/nested.ts'
import type { NestedRead, NestedReads, TableName } from '../../plan/nodes.ts'
import { isAllColumns } from '../../plan/output.ts'
import { raise } from '../statement/raised-error.ts'
import { tableName, unusedNames } from '../statement/table.ts'
import { columnValue } from '../values/column.ts'
import type { TypedValues } from '../values/typed-values.ts'
import { wholeRow } from './output.ts'
import { buildRows, outputColumn, ownColumn, type Read } from './select.ts'

/** Builds a query whose rows are one value `row` each. */
export function buildNestedSelect (node: NestedSelect, values: TypedValues): Fragment {
  const level = { read: node, table: node.table, nested: node.nested, also: [], depth: 0 }
  return sql`select s.row from (${buildLevel(level, values)}) as s where ${
    checkTotal(node.nested)
  }`
}

/** Rows with nested ones. */
interface Level {
  readonly read: Read
  readonly table: TableName
  readonly nested: NestedReads
  /** Further conditions: the rows belong to a row of the level above. */
  readonly also: readonly Fragment[]
  /** Number of levels above. */
  readonly depth: number
}

/** Builds the rows of a level as `row`, and as `total` the number of all rows so far. */
function buildLevel (
  { read, table, nested: { reads, maxRows }, also, depth }: Level,
  values: TypedValues
): Fragment {
  const base = sql`b${integer(depth)}`
  const keys = nameKeys(reads, read.output?.map(({ name }) => name) ?? [])
  const more = [...keys].map(([column, key]) =>
    sql`, ${values.row}.${identifier(column)} as ${identifier(key)}`
  )
  const rows = buildRows(read, values, {
    source: tableName(table),
    row: wholeRow(values),
    more: join(more, empty),
    also
  })
  const members = joinMembers(reads, values, {
    outer: column => sql`${base}.${identifier(keys.get(column) as string)}`,
    build: (read, inner, matches) => buildMember(read, inner, { also: matches, depth, maxRows })
  })
  const own = read.output === undefined
    ? sql`(${base}.row).*`
    : join(read.output.map(({ name }) => sql`${base}.${identifier(name)}`))
  return sql`select p.*::record as row,
      sum(1${members.count}) over (rows unbounded preceding) as total
    from (${rows}) as ${base}${members.source}
    cross join lateral (select ${own}${members.value}) as p
    left join lateral (select ${join(members.guards)}) as g on false`
}

interface MemberParts {
  /** Builds the column of the row to which the rows of a member belong. */
  readonly outer: (column: string) => Fragment
  /** Builds the query of a member from `matches`: that its rows belong to the row. */
  readonly build: (read: NestedRead, inner: TypedValues, matches: readonly Fragment[]) => Fragment
}

/** Returns each part of all members together, and their guards. */
function joinMembers (
  reads: readonly NestedRead[],
  values: TypedValues,
  { outer, build }: MemberParts
) {
  const members = reads.map((read, i) => {
    const inner = values.ofTable(read.table)
    const matches = read.on.map(([column, of]) =>
      sql`${inner.row}.${identifier(column)} = ${outer(of)}`
    )
    const alias = sql`n${integer(i)}`
    return {
      source: sql` cross join lateral (${build(read, inner, matches)}) as ${alias}`,
      value: sql`, ${alias}.rows as ${identifier(read.name)}`,
      count: sql` + ${alias}.n`,
      several: sql` or ${alias}.several`,
      // PostgreSQL refuses a name that the table has as well.
      guard: sql`p.${identifier(read.name)} as ${identifier(String(i))}`
    }
  })
  const all = (part: keyof typeof members[number]): Fragment =>
    join(members.map(member => member[part]), empty)
  return {
    source: all('source'),
    value: all('value'),
    count: all('count'),
    several: all('several'),
    guards: members.map(({ guard }) => guard)
  }
}

/** The columns that nested reads compare, each with a name that no output column has. */
function nameKeys (
  reads: readonly NestedRead[],
  taken: readonly string[]
): ReadonlyMap<string, string> {
  const columns = [...new Set(reads.flatMap(({ on }) => on.map(([, outer]) => outer)))]
  const names = unusedNames(taken, columns.length)
  return new Map(columns.map((column, i) => [column, names[i] as string]))
}

/**
 * Builds such a select without composite values, which a worker of Citus cannot send: rows are
 * JSON. It joins the rows of a shard on its worker. Each level reads its rows and those that belong
 * to them in one query, because the result of a subquery with a limit is not on the shards. The
 * rows are added up at the end, and members with several rows for `one` are refused there: a worker
 * also reads the members of rows beyond the limit:
 *
 *     select s.row from (
 *       select q.row, sum(q.n) over (rows unbounded preceding) as total, q.several from (
 *         select to_json(p.*) as row, 1 + n0.n as n, n0.several as several from "orders" as t
 *           cross join lateral (
 *             select json_agg(…) as rows, sum(…) as n, count(*) > 1 as several from …
 *           ) as n0
 *           cross join lateral (select t.*, n0.rows as "items") as p
 *         order by … limit …
 *       ) as q
 *     ) as s where <total is not too large> and <not several>
 */
export function buildPlainNestedSelect (node: NestedSelect, values: TypedValues): Fragment {
  const { nested, table } = node
  const rows = buildPlainLevel({ read: node, table, nested, also: [] }, values)
  return sql`select s.row from (
    select q.row, sum(q.n) over (rows unbounded preceding) as total, q.several
    from (${rows}) as q) as s where ${checkTotal(nested)}
    and case when s.several then ${raise('ambiguous')} is null else true end`
}

/**
 * Builds the rows of a level as `row`, as `n` the number of rows of each with those in it, and as
 * `several` whether a member with `one` has several.
 */
function buildPlainLevel (
  { read, table, nested: { reads, maxRows }, also }: Omit<Level, 'depth'>,
  values: TypedValues
): Fragment {
  const members = joinMembers(reads, values, {
    outer: column => sql`${values.row}.${identifier(column)}`,
    build ({ one, nested = { reads: [], maxRows }, ...parts }, inner, also) {
      const { table } = parts
      const read = { ...parts, limit: parts.limit ?? { value: maxRows + 1 } }
      const level = buildPlainLevel({ read, table, nested, also }, inner)
      return sql`select ${
        one ? ONLY_MEMBER : MEMBER_LIST
      } as rows, coalesce(sum(m.n), 0) as n, ${
        one ? sql`count(*) > 1 or ` : empty
      }coalesce(bool_or(m.several), false) as several from (${level}) as m`
    }
  })
  const { output } = read
  const whole = sql`${values.row}.*`
  const own = output?.map(column => isAllColumns(column)
    ? whole
    : outputColumn(column, path => columnValue(path, values)))
  // Beside all columns, the others must not have their names either.
  const added = output?.some(isAllColumns) === true
    ? output.filter(column => !isAllColumns(column))
    : []
  const guards = [
    ...members.guards,
    ...added.map(({ name }, i) => sql`p.${identifier(name)} as ${identifier(`c${i}`)}`)
  ]
  const guard = guards.length === 0
    ? empty
    : sql` cross join lateral (select ${join(guards)}) as g`
  // A computed column that returns a set is called once.
  const order = read.order.map(({ by, ...direction }) => {
    const isKnown = typeof by === 'string' || by.resultType !== 'column' ||
      values.typeOf(by.column) !== undefined
    return { ...direction, by: isKnown ? by : ownColumn(by, output ?? []) ?? by }
  })
  return buildRows({ ...read, output: undefined, order }, values, {
    source: tableName(table),
    row: sql`pg_catalog.to_json(p.*) as row`,
    more: sql`, 1${members.count} as n, false${members.several} as several`,
    joins: sql`${members.source} cross join lateral (
      select ${join(own ?? [whole])}${members.value}) as p${guard}`,
    also
  })
}

/** Builds one row: the member as `rows`, and the number of its rows of all levels as `n`. */
function buildMember (
  { table, one, nested, ...read }: NestedRead,
  values: TypedValues,
  { also, depth, maxRows }: Pick<Level, 'also' | 'depth'> & Pick<NestedReads, 'maxRows'>
): Fragment {
  const rows = memberRows(one)
  if (nested !== undefined) {
    const level = buildLevel({ read, table, nested, also, depth: depth + 1 }, values)
    return sql`select ${rows} as rows, coalesce(max(m.total), 0) as n
      from (select * from (${level}) as s where ${checkTotal(nested)}) as m`
  }
  const source = buildRows(read, values, {
    source: tableName(table),
    row: wholeRow(values),
    also
  })
  const whole = read.output === undefined
    ? source
    : sql`select q.*::record as row from (${source}) as q`
  return sql`select ${rows} as rows, count(*) as n
    from (select * from (${whole}) as l limit ${integer(maxRows + 1)}) as m`
}

const MEMBER_LIST = sql`coalesce(json_agg(m.row), '[]')`
const ONLY_MEMBER = sql`json_agg(m.row) operator(pg_catalog.->) 0`

/** The value of a member: the rows `m.row`, or with `one` the only row or NULL. */
function memberRows (one: boolean): Fragment {
  return one
    ? sql`case when count(*) > 1 then ${raise('ambiguous')}::json else ${ONLY_MEMBER} end`
    : MEMBER_LIST
}

/** A condition that is true, or raises `rows`. */
function checkTotal ({ maxRows }: NestedReads): Fragment {
  return sql`case when s.total > ${integer(maxRows)} then ${raise('rows')} is null else true end`
}
