/**
 * The selects of the model: what an operation returns, and what `from` reads.
 */
import type { Operation } from './finish-batch.ts'
import { columnOf, filter, literal, name, tableName, types } from './model-filter.ts'
import { resolve } from './model-reference.ts'
import { endWith, type Context, type Rows, type Session } from './outcome.ts'
import { outputKinds, outputName, toOutputColumn } from './output-kinds.ts'
import { tableOf, type Kind } from './tables.ts'

/** Members that select and `from` have in common. */
export type Read = Readonly<Record<string, unknown>>

interface ReadSql {
  readonly text: string
  /** Whether the order of the rows is defined. */
  readonly ordered: boolean
}

export async function select (operation: Operation, context: Context): Promise<Rows> {
  const { text, ordered } = await buildRead(operation, context)
  const texts = await context.session.query(
    `select to_json(r)::text from (${text}${locking(operation['lock'])}) as r`
  )
  return { texts, ordered }
}

/** Builds the rows that an insert, an update or a delete takes from another table. */
export async function buildSource (from: Read, context: Context): Promise<ReadSql> {
  const columns = from['columns'] as readonly unknown[] | undefined
  const outputs = (columns ?? []).map(toOutputColumn)
  const fixed = ['distinct', 'group_by', 'having'].some(word => from[word] !== undefined) ||
    outputs.some(({ fn }) => fn !== undefined)
  const renamed = outputs.filter(one => outputName(one) !== one.column)
  const read = fixed || columns === undefined ? from : { ...from, columns: ['*', ...renamed] }
  return buildRead(read, { ...context, table: tableOf(from) })
}

async function buildRead (read: Read, context: Context): Promise<ReadSql> {
  const { session, table } = context
  const columns = read['columns'] as readonly unknown[] | undefined
  const groups = (read['group_by'] ?? []) as readonly string[]
  const order = (read['order'] ?? []) as readonly Ordering[]
  const distinct = read['distinct'] === true
  const shown = columns === undefined
    ? 't.*'
    : columns.map(one => output(one, context)).join(', ')
  const rows = `${shown} from ${tableName(read['table'] as string)} as t${pageOf(read, context)}${
    groups.length === 0 ? '' : ` group by ${groups.map(name).join(', ')}`
  }`
  const sorted = order.length === 0
    ? ''
    : ` order by ${order.map(one => ordering(one, distinct ? '' : 't.')).join(', ')}`
  const limits = ['limit', 'offset'].map(word =>
    read[word] === undefined ? '' : ` ${word} ${read[word] as number}`
  ).join('')
  if (distinct) await checkDistinct(rows, session)
  const whole = `select ${distinct ? 'distinct ' : ''}${rows}${sorted}`
  const unique = distinct && columns !== undefined
    ? Object.keys(outputKinds(columns, table.columns))
    : groups.length > 0 ? groups : table.key
  const names = order.map(one => Object.keys(one)[0] as string)
  return {
    text: `${
      read['having'] === undefined
        ? whole
        : `select t.* from (${whole}) as t where ${havingOf(read, context)}`
    }${limits}`,
    ordered: unique.every(column => names.includes(column)) ||
      (groups.length === 0 && outputsOne(columns))
  }
}

/** Whether aggregates without groups make one row of all. */
function outputsOne (columns: readonly unknown[] = []): boolean {
  return columns.some(one => toOutputColumn(one).fn !== undefined)
}

/** Returns the SQL of one element of `columns` or `returning`. */
export function output (one: unknown, context: Context): string {
  if (one === '*') return 't.*'
  const shown = toOutputColumn(one)
  const { column, fn, cast, distinct } = shown
  const stored = column === undefined ? '*' : columnOf(column, context).left
  const value = cast === undefined ? stored : `cast(${stored} as ${cast})`
  const result = fn === undefined ? value : `${fn}(${distinct === true ? 'distinct ' : ''}${value})`
  return `${result} as ${name(outputName(shown))}`
}

/** Equal values may have several texts, of which any may be returned: 1.0 and 1.00. */
async function checkDistinct (rows: string, session: Session): Promise<void> {
  const [same] = await session.query(`select (select count(*) from (select distinct ${rows}) as d) =
    (select count(distinct to_json(r)::text) from (select ${rows}) as r)`)
  if (String(same) !== 'true') throw endWith({ kind: 'open' })
}

function havingOf ({ columns, having }: Read, context: Context): string {
  const kinds = outputKinds(columns as readonly unknown[], context.table.columns)
  return filter(having as object, { ...context, table: { ...context.table, columns: kinds } })
}

type Ordering = Readonly<Record<string, unknown>>

/** `where`, and the rows behind those of `after`: all get a rank together with its values. */
function pageOf (read: Read, context: Context): string {
  const conditions = read['where'] === undefined
    ? []
    : [filter(read['where'] as object, context)]
  const after = read['after'] as readonly unknown[] | undefined
  if (after !== undefined) {
    const order = read['order'] as readonly Ordering[]
    const names = order.map(one => name(Object.keys(one)[0] as string)).join(', ')
    const values = order.map((one, i) => {
      const kind = context.table.columns[Object.keys(one)[0] as string] as Kind
      return `${literal(resolve(after[i], context.results), kind)}::${types[kind]}`
    })
    conditions.push(`t.ctid in (
      with ranked as (
        select place, rank() over (order by ${order.map(one => ordering(one, '')).join(', ')}) as n
        from (
          select ctid as place, ${names} from ${tableName(read['table'] as string)}
          union all select null, ${values.join(', ')}
        ) as places
      )
      select place from ranked where n > (select n from ranked where place is null))`)
  }
  return conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`
}

function ordering (one: Ordering, row: string): string {
  const [[column, how]] = Object.entries(one) as [[string, unknown]]
  const { direction, nulls } = (typeof how === 'string' ? { direction: how } : how) as {
    direction: string,
    nulls?: string
  }
  return `${row}${name(column)} ${direction}${nulls === undefined ? '' : ` nulls ${nulls}`}`
}

const modes: Readonly<Record<string, string>> = {
  update: 'update', no_key_update: 'no key update', share: 'share', key_share: 'key share'
}
const waits: Readonly<Record<string, string>> = { nowait: ' nowait', skip_locked: ' skip locked' }

function locking (lock: unknown): string {
  if (lock === undefined) return ''
  const { mode = 'update', wait = '' } = (typeof lock === 'string' ? { mode: lock } : lock) as {
    mode?: string,
    wait?: string
  }
  return ` for ${modes[mode] as string}${waits[wait] ?? ''}`
}
