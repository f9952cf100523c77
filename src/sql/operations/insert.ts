/**
 * Builds the INSERT of an insert operation.
 */
import {
  constant,
  identifier,
  integer,
  join,
  sql,
  whereAll,
  type Fragment
} from '../../fragment/fragment.ts'
import type { Cell, InsertNode, RowGroup, InsertQuery } from '../../plan/nodes.ts'
import { isMarked } from '../../plan/output.ts'
import { refersToOperation } from '../../plan/reference.ts'
import { readCells } from '../../plan/stored-values.ts'
import { raise } from '../statement/raised-error.ts'
import { tableName, unusedName } from '../statement/table.ts'
import { buildWhen } from '../statement/when.ts'
import { SOURCE_ROW } from '../values/column.ts'
import { buildStoredRows, countTo, nameStored } from '../values/stored-rows.ts'
import type { StoredRows, TypedValues } from '../values/typed-values.ts'
import { buildConflictClause, buildNewValue } from './assignment.ts'
import { markRow } from './output.ts'
import { buildSource } from './source.ts'

interface InsertedRows {
  /** One of several groups. */
  readonly group?: RowGroup
  /** Whether `returning` reads the number of each row; see numberRow. */
  readonly numbered?: boolean
}

/** Builds the INSERT of all rows, or of one group, without `returning`. */
export function buildInsert (
  node: InsertNode,
  values: TypedValues,
  { group = node.groups[0] as RowGroup, numbered = false }: InsertedRows = {}
): Fragment {
  const marked = isMarked(node)
  const conflict = buildConflictClause(node, values, { marked })
  const mark = marked ? [markRow(true)] : []
  const rows = node.query === undefined
    ? buildRows(group, values, { conditions: [...buildWhen(node), ...mark], numbered })
    : buildQueryRows(node.query, [...mark, ...buildWhen(node)], values)
  return sql`insert into ${tableName(node.table)} as t${rows}${conflict}`
}

/**
 * Maximum number of values of several rows that are written as expressions. The text of more would
 * be long, so PostgreSQL reads them from arrays or JSON.
 */
const MAX_CELLS = 128

/** Builds the rows as lists of VALUES; undefined: they are sent together. */
function buildLists (
  { columns, positions, rows }: RowGroup,
  values: TypedValues
): readonly Fragment[] | undefined {
  const cells = readCells(rows)
  if (cells === undefined) return undefined
  const isLong = cells.length > 1 && cells.length * columns.length > MAX_CELLS
  if (isLong && !refersToOperation(rows)) return undefined
  return cells.map((row, i) => {
    const built = columns.map(column =>
      values.buildCell(row.get(column) as Cell, column, { row: positions[i] })
    )
    return sql`(${join(built)})`
  })
}

interface RowsOptions extends Required<Pick<InsertedRows, 'numbered'>> {
  readonly conditions: readonly Fragment[]
}

/** Builds the columns of an insert, and its rows. */
function buildRows (
  group: RowGroup,
  values: TypedValues,
  { conditions, numbered }: RowsOptions
): Fragment {
  const { columns, positions } = group
  const number = identifier(unusedName(columns))
  const where = whereAll(numbered ? [...conditions, numberRow(number)] : conditions)
  if (columns.length === 0) {
    return positions.length === 1 && conditions.length === 0
      ? DEFAULTS
      : sql` select from ${countTo(positions.length)} as x (${number})${where}`
  }
  const names = join(columns.map(identifier))
  const lists = buildLists(group, values)
  if (lists !== undefined && conditions.length === 0 && !numbered) {
    return sql` (${names}) values ${join(lists)}`
  }
  const { from, stored }: StoredRows = lists === undefined
    ? buildStoredRows(group, values)
    : {
        from: sql`(values ${join(lists)}) as x (${names})`,
        stored: columns.map(name => sql`x.${identifier(name)}`)
      }
  if (!numbered) return sql` (${names}) select ${join(stored)} from ${from}${where}`
  return sql` (${names}) select ${names} from (select ${
    nameStored(columns, stored)
  }, row_number() over () as ${number} from ${from}) as x${where}`
}

const DEFAULTS = sql` default values`

const NUMBER_SETTING = constant('oneflight.number')

/**
 * A condition that is true and makes the number of the row in its group, from 1, available to
 * rowNumber in `returning`.
 *
 * PostgreSQL has no other way to find out which rows of an INSERT were suppressed, by `on conflict`
 * or by a trigger. INSERT reads one row of its query at a time. The query puts the number into a
 * setting, PostgreSQL inserts the row, evaluates `returning`, and then reads the next row.
 *
 * A window function in a subquery computes the number. PostgreSQL never merges such a subquery into
 * the outer query, so it evaluates this condition last and once per row. A counter in the setting
 * would be wrong after a trigger resets it. Measured on PostgreSQL 14 and 18: 2 to 3 us per row.
 */
function numberRow (number: Fragment): Fragment {
  return sql`pg_catalog.set_config(${NUMBER_SETTING}, x.${number}::text, true) is not null`
}

/**
 * In `returning` of a numbered insert: the number of the row, or NULL if a trigger of the row reset
 * the settings of the session.
 */
export const rowNumber: Fragment =
  sql`nullif(pg_catalog.current_setting(${NUMBER_SETTING}, true), '')::int`

/** The number of a row of the query. No column that is read has a name with an arrow. */
const NUMBER = identifier('->')

/**
 * Builds the columns of an insert and the query of its rows. PostgreSQL inserts them in the order
 * of the query, which fails if it has too many: with `on conflict`, not all of them would be
 * counted afterwards.
 */
function buildQueryRows (
  query: InsertQuery,
  conditions: readonly Fragment[],
  values: TypedValues
): Fragment {
  const { set, source, maxRows } = query
  const names = set.map(({ column }) => identifier(column))
  const stored = set.map(assignment => buildNewValue(assignment, values))
  const numbered = sql`select q.*, pg_catalog.row_number() over () as ${NUMBER}
    from (${buildSource(source, values)}) as q limit ${integer(maxRows + 1)}`
  const where = whereAll([...conditions, ...checkNumber(maxRows, values)])
  return sql` (${join(names)}) select ${join(stored)}
    from (${numbered}) as ${SOURCE_ROW}${where}`
}

function checkNumber (maxRows: number, { explain }: TypedValues): readonly Fragment[] {
  if (explain) return []
  return [sql`case when ${SOURCE_ROW}.${NUMBER} > ${integer(maxRows)}
    then ${raise('rows')} is null else true end`]
}
