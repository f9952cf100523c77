/**
 * What a statement computes once, before any row is looked at, and then reads wherever it is
 * needed: the rows that earlier operations published (`s0`, `s1`, … by order of use, so that the
 * text is the same wherever in a batch its operation stands) and JSON in the types of columns
 * (`v0`, `v1`, …). To read from there costs no more than a parameter does, and lets an index be
 * used.
 */
import { randomUUID } from 'node:crypto'
import type { ColumnPath, Doubt, JsonShape, Plan, TableName } from '../plan/nodes.ts'
import {
  constant,
  empty,
  identifier,
  join,
  parameter,
  render,
  sharedParameter,
  sql,
  type Fragment
} from './fragment.ts'
import { inspected, isJson, undoubted, type CheckedColumn } from './value-checks.ts'
import { raiseText, type ValueFault } from './marker.ts'

/**
 * The scope of the statement of one operation. It collects: `queries` and `types` are asked when
 * the statement is written.
 */
export interface CteBuilder {
  readonly table: TableName
  /** Whether values are followed into their types; see inspect.ts. */
  readonly careful: boolean
  /** Whether triggers change how values are read and written; see compile.ts. */
  readonly restoring: boolean
  /**
   * Name of the query whose one row has the published rows of operation `source` as `rows`, of type
   * json[].
   */
  published(source: number): Fragment
  /**
   * The published rows of operation `source` as one JSON array, where that is short and was not
   * asked for often; else undefined.
   */
  short(source: number): Fragment | undefined
  /** JSON of this shape in the type of a column or of a place in its jsonb; see `TypedAs`. */
  typed(json: Fragment, path: ColumnPath, as?: TypedAs, shape?: JsonShape): Fragment
  /** A JSON array as an array of the type of a column or of a place in its jsonb. */
  list(json: Fragment, path: ColumnPath): Fragment
  /**
   * The JSON null in the type of a column. Where that is neither json nor jsonb: NULL, or with
   * `refused` the failure `value`. `when`: NULL unless this is true.
   */
  jsonNull(
    path: ColumnPath,
    options?: { readonly refused?: boolean, readonly when?: Fragment }
  ): Fragment
  /**
   * Where that is to be known: `, <from>."<column>" as "n0", …`, the values that later operations
   * read, beside the row; without `from` only those names.
   */
  exposed(from?: Fragment): Fragment
  /**
   * Notes that the row `x` is stored, of which these columns may not be what the JSON was, and
   * returns the condition that finds out.
   */
  undoubted(doubts: readonly Doubt[]): readonly Fragment[]
  /** Whether there was any doubt. */
  doubtful(): boolean
  /** Notes that a parameter takes its type from a column. */
  meets(column: string): void
  /**
   * A NULL of the type of each column that a parameter meets. PostgreSQL refuses a prepared
   * statement whose result has another type than before, so no statement is run with parameters of
   * a type that a column no longer has. undefined: too many, do not prepare.
   */
  types(): readonly Fragment[] | undefined
  /**
   * `<rows> as x`: rows with these columns that the operation stores. When it is `restoring`, they
   * are a query (`x0`, `x1`, …) that is computed once, like the values.
   */
  stored(rows: Fragment, columns: readonly string[]): Fragment
  /** `s0 as (…), v0 as (…), …, l0 as (…), …, x0 as (…), …`. */
  queries(): readonly Fragment[]
  /**
   * A condition that is true, and computes all values and stored rows when it is evaluated. It
   * contains no column, so PostgreSQL evaluates it before any row is read.
   */
  computed(): Fragment
}

/**
 * In which type JSON is read: of one value, or of the difference of two (what can be added: a
 * number of days to a date).
 */
export type TypedAs = 'value' | 'difference'

interface TypedValue {
  readonly json: Fragment
  readonly example: Fragment
  readonly shape: JsonShape
  /** The column, for people. */
  readonly label: string
}

/** A function takes no more than 100 arguments, and a value needs two. */
const valuesPerQuery = 50

/**
 * A look into the JSON text costs less than to take all rows apart (10 us an operation, measured in
 * a backend), but each one reads it from its beginning.
 */
const fewRows = 4
const fewLooks = 4

/** PostgreSQL copies the description of the table for each of them. */
const maxTypes = 16

export interface CteBuilderOptions {
  /** Whether values are followed into their types; see inspect.ts. */
  readonly careful?: boolean | undefined
  /** Whether triggers change how values are read and written; see compile.ts. */
  readonly restoring?: boolean | undefined
  /** Columns of the answer of which later operations read single values. */
  readonly exposed?: ReadonlyArray<readonly [column: string, place: number]>
  /** Whether doubts are left out: a plan that clients see would show the secret of markers. */
  readonly explained?: boolean
}

export function createCteBuilder (
  table: TableName,
  readings: Plan['referenceUses'],
  { careful = false, restoring = false, exposed = [], explained = false }: CteBuilderOptions = {}
): CteBuilder {
  let doubted = false
  const met = new Set<string>()
  const sources = new Map<number, string>()
  const settings = new Map<number, Fragment>()
  let looks = 0
  const values: TypedValue[] = []
  const lists: Array<Pick<TypedValue, 'json' | 'example'>> = []
  const stored: Fragment[] = []
  const chunks = (): ReadonlyArray<readonly TypedValue[]> =>
    Array.from(
      { length: Math.ceil(values.length / valuesPerQuery) },
      (_, i) => values.slice(i * valuesPerQuery, (i + 1) * valuesPerQuery)
    )
  const add = (value: TypedValue): Fragment => {
    const position = values.push(value) - 1
    const query = identifier(`v${Math.floor(position / valuesPerQuery)}`)
    return sql`(select ${query}.${identifier(fieldName(position % valuesPerQuery))} from ${query})`
  }
  return {
    table,
    careful,
    restoring,
    published (source) {
      const name = sources.get(source) ?? `s${sources.size}`
      sources.set(source, name)
      return identifier(name)
    },
    short (source) {
      if (
        looks++ >= fewLooks ||
        readings.get(source)?.some(({ reference, rows }) =>
          reference.row === '*' || rows > fewRows
        ) !== false
      ) return undefined
      const setting = settings.get(source) ?? sharedParameter(settingName(source))
      settings.set(source, setting)
      return sql`current_setting(${setting})::json`
    },
    exposed: from =>
      join(
        (careful ? exposed : []).map(([column, i]) => {
          const name = identifier(`n${i}`)
          return from === undefined
            ? sql`, ${name}`
            : sql`, ${from}.${identifier(column)} as ${name}`
        }),
        empty
      ),
    undoubted (doubts) {
      doubted ||= doubts.length > 0
      if (explained || careful || doubts.length === 0) return []
      return [
        undoubted(
          doubts.map(({ column, shape }) => ({ value: sql`x.${identifier(column)}`, shape }))
        )
      ]
    },
    doubtful: () => doubted,
    typed (json, path, as = 'value', shape = 'scalar') {
      doubted ||= shape !== 'scalar'
      return add({
        json,
        example: exampleOf(path, table, as),
        shape: explained ? 'scalar' : shape,
        label: labelOf(path)
      })
    },
    list (json, path) {
      if (path.gives !== 'column') return elements(json, path.gives)
      const position = lists.push({ json, example: exampleOf(path, table, 'value') }) - 1
      const query = identifier(`l${position}`)
      return sql`(select ${query}.f1 from ${query})`
    },
    jsonNull (path, { refused = false, when } = {}) {
      if (path.gives === 'json') return sql`case when ${when ?? sql`true`} then 'null'::jsonb end`
      const fault: ValueFault = { problem: 'null', path: ['', labelOf(path)] }
      const failing = sql` else ${raiseText('value', parameter(JSON.stringify(fault)))}::json`
      const is = isJson(exampleOf(path, table, 'value'))
      const json = sql`case when ${when === undefined ? empty : sql`${when} and `}${is}
        then to_json(${rowOfJsonNull(table, path.column)})${refused ? failing : empty} end`
      const row = add({ json, example: sql`null::${tableName(table)}`, shape: 'scalar', label: '' })
      return sql`(${row}).${identifier(path.column)}`
    },
    meets (column) {
      if (!systemColumns.has(column)) met.add(column)
    },
    types () {
      if (met.size > maxTypes) return undefined
      return [...met].map(column =>
        sql`case when false then (null::${tableName(table)}).${identifier(column)} end`
      )
    },
    stored (rows, columns) {
      if (!restoring) return sql`${rows} as x`
      const names = join(columns.map(identifier), sql`, `)
      return sql`${identifier(`x${stored.push(sql`select ${names} from ${rows} as x`) - 1}`)} as x`
    },
    queries () {
      if (sources.size + values.length + lists.length + stored.length === 0) return []
      return [
        ...[...sources].map(([source, name]) =>
          sql`${identifier(name)} as materialized (${publishedRows(source)})`
        ),
        ...chunks().map((chunk, i) =>
          sql`${identifier(`v${i}`)} as materialized (${typedValues(chunk, table, careful)})`
        ),
        ...lists.map((list, i) =>
          sql`${identifier(`l${i}`)} as materialized (${typedList(list, table)})`
        ),
        ...stored.map((query, i) => sql`${identifier(`x${i}`)} as materialized (${query})`)
      ]
    },
    computed () {
      const names = [
        ...chunks().map((_, i) => `v${i}`),
        ...lists.map((_, i) => `l${i}`),
        ...stored.map((_, i) => `x${i}`)
      ]
      return join([
        sql`true`,
        ...names.map(name => sql`(select count(*) from ${identifier(name)}) is not null`)
      ], sql` and `)
    }
  }
}

/**
 * Name of the setting that holds the rows of operation `index`. The index, for setting names ignore
 * case and operation ids do not.
 */
export function settingName (index: number): string {
  return `oneflight.r${index}`
}

/**
 * Name of the setting in which the answer of operation `index` waits to be stored with the key of
 * its batch. Its name cannot be guessed.
 */
export function answerSetting (index: number): string {
  return `${answers}_${index}`
}

const answers = `oneflight.answer_${randomUUID().replaceAll('-', '')}`

/**
 * Name of the setting that says which values of operation `index` are the JSON null; see
 * compile.ts.
 */
export function nullsName (index: number | ''): string {
  return `oneflight.n${index}`
}

/** `"schema"."name"`. */
export function tableName (table: TableName): Fragment {
  return sql`${identifier(table.schema)}.${identifier(table.name)}`
}

/**
 * A row of `table` in which every column is NULL. `null::"schema"."name"` is no such row:
 * json_populate_record then checks NULL against the domain of every column that the JSON does not
 * name, so that no row of a table with a NOT NULL domain could leave it to its default.
 */
export function nullRow (table: TableName): Fragment {
  const type = tableName(table)
  return sql`(select x.*::${type} from (select (null::${type}).*) as x)`
}

/**
 * Taken apart once: each look into the JSON text would read it from its beginning (measured: 1000
 * references to 10 000 rows 44 s, so 1.6 s).
 */
function publishedRows (source: number): Fragment {
  return sql`select array(select element from json_array_elements(current_setting(${
    parameter(settingName(source))
  })::json) as elements (element)) as rows`
}

/**
 * A NULL of the type that JSON is to take. It must compare as a literal would, so it has the type
 * of the column without its length, precision or domain: as numeric(4,2), 1.234 would become 1.23
 * and then equal what it does not equal. CASE takes all of that away, and what can never be chosen
 * is never computed: a computed column is not called for its type.
 */
function exampleOf ({ column, gives }: ColumnPath, table: TableName, as: TypedAs): Fragment {
  if (gives !== 'column') {
    return sql`null::${gives === 'json' ? sql`jsonb` : sql`text`}`
  }
  const name = identifier(column)
  // Rows that are no table's have no system columns.
  const value = systemColumns.has(column)
    ? sql`(select t.${name} from ${tableName(table)} as t)`
    : sql`n.${name}`
  return sql`case when false
    then ${as === 'difference' ? sql`${value} - ${value}` : value} end`
}

/** Every table has them (docs: "System Columns"). */
const systemColumns: ReadonlySet<string> = new Set([
  'tableoid',
  'xmin',
  'cmin',
  'xmax',
  'cmax',
  'ctid'
])

/**
 * Only json_populate_record turns JSON into a type that is not named, and only by example: a row of
 * NULLs of those types. The branch that is never run tells the parser what its fields are. Their
 * types come from `n`, a row of the table in which every column is NULL, and not from
 * `(null::"table")."column"`, for which PostgreSQL copies the description of the row each time
 * (measured: 750 MB for 1500 columns).
 */
function typedValues (values: readonly TypedValue[], table: TableName, careful: boolean): Fragment {
  const members = values.map(({ json }, i) => sql`${constant(fieldName(i))}, ${json}`)
  const object = sql`json_build_object(${join(members, sql`, `)})`
  const looked = values.flatMap(({ shape, example, label }, i) =>
    shape === 'scalar' ? [] : [{ shape, example, label, member: fieldName(i) }]
  )
  const doubts = looked.map(({ shape, member }): CheckedColumn => ({
    value: sql`(x.value).${identifier(member)}`,
    shape: shape as CheckedColumn['shape']
  }))
  const json = careful ? inspected(object, looked) : object
  const where = careful || doubts.length === 0 ? empty : sql` where ${undoubted(doubts)}`
  return sql`select (x.value).* from ${examples(values, table)}
    cross join lateral (select example.value where false union all
      select json_populate_record(example.value, ${json})) as x${where}`
}

/**
 * Each element by itself: read as an array, an array in it would be another dimension, and an empty
 * one would be gone. Measured: 10 000 numbers take 31 ms instead of 13.
 */
function typedList (
  { json, example }: Pick<TypedValue, 'json' | 'example'>,
  table: TableName
): Fragment {
  return sql`select coalesce(array_agg((x.value).f1), '{}') as f1
    from ${examples([{ example }], table)}
    cross join lateral (select example.value where false union all
      select json_populate_record(example.value, json_build_object('f1', e.value))
      from json_array_elements(${json}) as e) as x`
}

/** `example`: a row of the types that JSON is to take. */
function examples (
  values: ReadonlyArray<Pick<TypedValue, 'example'>>,
  table: TableName
): Fragment {
  return sql`json_populate_record(${nullRow(table)}, '{}') as n
    cross join lateral (
      select row(${join(values.map(({ example }) => example), sql`, `)}) as value
    ) as example`
}

/** A JSON array as jsonb[] or text[]. */
function elements (json: Fragment, gives: 'json' | 'text'): Fragment {
  const value = gives === 'text'
    ? sql`e.value #>> '{}'`
    : sql`case json_typeof(e.value) when 'null' then null else e.value::jsonb end`
  return sql`(select coalesce(array_agg(${value}), '{}') from json_array_elements(${json}) as e)`
}

/**
 * A row of the table as PostgreSQL writes it, in which a column is the JSON null and every other
 * one NULL. For json_populate_record null is always NULL, but it reads a text where it expects a
 * row as that row.
 */
function rowOfJsonNull (table: TableName, column: string): Fragment {
  return sql`(select '(' ||
      string_agg(case when a.attname = ${parameter(column)} then 'null' else '' end, ','
        order by a.attnum) || ')'
    from pg_catalog.pg_attribute as a
    where a.attrelid = ${constant(render(tableName(table)).text)}::regclass and a.attnum > 0
      and not a.attisdropped)`
}

function labelOf ({ column, keys }: ColumnPath): string {
  return [column, ...keys].join('->')
}

/** PostgreSQL's own name of a field of ROW(…). */
function fieldName (position: number): string {
  return `f${position + 1}`
}
