/**
 * Runs one operation of the model as one SQL statement.
 */
import type { Operation } from './finish-batch.ts'
import { columnOf, filter, literal, name, quote, tableName, textOf, types } from './model-filter.ts'
import { readFirst, resolve, resolveStored } from './model-reference.ts'
import { endWith, type Context, type Rows, type Session } from './outcome.ts'
import { outputKinds, outputName, toOutputColumn } from './output-kinds.ts'
import { digitsOf } from './raw-json.ts'
import type { Kind } from './tables.ts'

export async function runOperation (operation: Operation, context: Context): Promise<Rows> {
  switch (operation.op) {
    case 'insert':
      return insert(operation, context)
    case 'select':
      return select(operation, context)
    case 'update':
      return change(
        operation,
        context,
        `update ${tableName(operation.table)} as t set ${
          assignments(operation['set'] as object, context)
        }`
      )
    case 'delete':
      return change(operation, context, `delete from ${tableName(operation.table)} as t`)
  }
}

function where ({ where: conditions }: Operation, context: Context): string {
  return conditions === undefined ? '' : ` where ${filter(conditions as object, context)}`
}

async function change (operation: Operation, context: Context, statement: string): Promise<Rows> {
  const texts = await runReturning(operation, `${statement}${where(operation, context)}`, context)
  if (texts.length === 0 && operation.op === 'update') {
    await checkUnused(operation['set'] as object, context)
  }
  return { texts, ordered: false }
}

/** Values that no row receives may or may not be checked. */
async function checkUnused (set: object, { session, table, results }: Context): Promise<void> {
  const values = Object.entries(set).map(([column, value]) =>
    `(${assigned(column, value, { results, kind: table.columns[column] as Kind })})`
  ).filter(value => value.startsWith('((select'))
  await session.query('savepoint unused')
  await session.query(`select 1${values.map(value => `, ${value}`).join('')}`).catch(() => {
    throw endWith({ kind: 'open' })
  })
}

/** Runs a change and returns its rows; with `returning: []` the same number of empty rows. */
async function runReturning (
  { returning }: Operation,
  statement: string,
  context: Context
): Promise<readonly string[]> {
  const columns = returning as readonly unknown[] | undefined
  const shown = columns === undefined
    ? 't.*'
    : columns.length === 0
      ? '1'
      : columns.map(one => output(one, context)).join(', ')
  const rows = await context.session.query(
    `with t as (${statement} returning ${shown}) select to_json(t)::text from t`
  )
  return columns?.length === 0 ? rows.map(() => '{}') : rows
}

/** Returns the SQL of one element of `columns` or `returning`. */
function output (one: unknown, context: Context): string {
  if (one === '*') return 't.*'
  const shown = toOutputColumn(one)
  const { column, fn, cast, distinct } = shown
  const stored = column === undefined ? '*' : columnOf(column, context).left
  const value = cast === undefined ? stored : `cast(${stored} as ${cast})`
  const result = fn === undefined ? value : `${fn}(${distinct === true ? 'distinct ' : ''}${value})`
  return `${result} as ${name(outputName(shown))}`
}

async function insert (operation: Operation, context: Context): Promise<Rows> {
  const { table, results } = context
  const columns = Object.keys(table.columns)
  const rows = (operation['values'] as ReadonlyArray<Record<string, unknown>>).map(row =>
    `(${
      columns.map(column =>
        Object.hasOwn(row, column)
          ? literal(
            resolveStored(row[column], results, table.columns[column] as Kind),
            table.columns[column] as Kind
          )
          : 'default'
      ).join(', ')
    })`
  )
  const statement = (rows: readonly string[]): string =>
    `insert into ${tableName(operation.table)} as t (${columns.map(name).join(', ')}) values ${
      rows.join(', ')
    }${conflict(operation, context)}`
  return { texts: await runReturning(operation, statement(rows), context), ordered: true }
}

export interface Conflict {
  readonly columns?: readonly string[]
  readonly constraint?: string
  readonly do: string
  readonly set?: object
  readonly where?: object
}

function conflict (operation: Operation, context: Context): string {
  const conflict = operation['on_conflict'] as Conflict | undefined
  if (conflict === undefined) return ''
  const { columns, constraint, set, where } = conflict
  const target = constraint === undefined
    ? `(${(columns as readonly string[]).map(name).join(', ')})`
    : `on constraint ${name(constraint)}`
  if (conflict.do === 'nothing') return ` on conflict ${target} do nothing`
  const named = Object.keys((operation['values'] as readonly object[])[0] as object)
  const taken = set === undefined
    ? named.map(column => `${name(column)} = excluded.${name(column)}`).join(', ')
    : assignments(set, context)
  return ` on conflict ${target} do update set ${taken}${
    where === undefined ? '' : ` where ${filter(where, context)}`
  }`
}

function assignments (set: object, { results, table }: Context): string {
  return Object.entries(set).map(([column, value]) =>
    `${name(column)} = ${assigned(column, value, { results, kind: table.columns[column] as Kind })}`
  ).join(', ')
}

function assigned (
  column: string,
  value: unknown,
  { results, kind }: { readonly results: readonly Rows[], readonly kind: Kind }
): string {
  const members = typeof value === 'object' && value !== null && !Array.isArray(value) &&
      digitsOf(value) === undefined && readFirst(value) === undefined
    ? Object.entries(value)
    : []
  const [modifier, operand] = members.length === 1 && members[0]?.[0].startsWith('$') === true
    ? members[0]
    : ['$value', value]
  const before = `t.${name(column)}`
  const resolved = resolveStored(operand, results, kind)
  const text = literal(resolved, kind)
  switch (modifier) {
    case '$inc':
      return kind === 'at'
        ? `${before} + make_interval(secs => ${textOf(operand) as string})`
        : `${before} + ${text}`
    case '$mul':
      return `${before} * ${text}`
    case '$now':
      return 'now()'
    case '$default':
      return 'default'
    case '$col':
      return `t.${name(operand as string)}`
    case '$excluded':
      return `excluded.${name(operand as string)}`
    case '$remove':
      return `${before} - ${quote(resolved as string)}`
    case '$append':
      return append(before, resolved, kind)
    case '$merge':
      return merge(before, resolved)
    default:
      return deferLiteral(text, kind, column === 'price' ? 'numeric(10, 2)' : types[kind])
  }
}

/** Returns a literal that PostgreSQL only evaluates when a row receives it. */
function deferLiteral (text: string, kind: Kind, type: string): string {
  return text.startsWith("'") && kind !== 'text' && kind !== 'doc'
    ? `(select ${text}::text)::${type}`
    : text
}

/**
 * NULL counts as empty. JSON that is not an array is rejected. An array adds its elements to jsonb,
 * any other value adds itself.
 */
function append (before: string, value: unknown, kind: Kind): string {
  const base = kind === 'tags'
    ? `coalesce(${before}, '{}')`
    : `case when jsonb_typeof(coalesce(${before}, '[]')) = 'array'
        then coalesce(${before}, '[]') else unfit() end`
  return value === null || value === undefined ? base : `${base} || ${literal(value, kind)}`
}

/** NULL counts as empty. Anything but an object is rejected, on either side. */
function merge (before: string, value: unknown): string {
  const added = quote(value === null || value === undefined ? '{}' : JSON.stringify(value))
  const base = `coalesce(${before}, '{}')`
  const objects = `jsonb_typeof(${base}) = 'object' and jsonb_typeof(${added}::jsonb) = 'object'`
  return `case when ${objects} then ${base} || ${added}::jsonb else unfit() end`
}

async function select (operation: Operation, context: Context): Promise<Rows> {
  const { session, table } = context
  const columns = operation['columns'] as readonly unknown[] | undefined
  const groups = (operation['group_by'] ?? []) as readonly string[]
  const order = (operation['order'] ?? []) as readonly Ordering[]
  const distinct = operation['distinct'] === true
  const shown = columns === undefined
    ? 't.*'
    : columns.map(one => output(one, context)).join(', ')
  const rows = `${shown} from ${tableName(operation.table)} as t${pageOf(operation, context)}${
    groups.length === 0 ? '' : ` group by ${groups.map(name).join(', ')}`
  }`
  const sorted = order.length === 0
    ? ''
    : ` order by ${order.map(one => ordering(one, distinct ? '' : 't.')).join(', ')}`
  const limits = ['limit', 'offset'].map(word =>
    operation[word] === undefined ? '' : ` ${word} ${operation[word] as number}`
  ).join('')
  const whole = `select ${distinct ? 'distinct ' : ''}${rows}${sorted}`
  const found = operation['having'] === undefined
    ? whole
    : `select t.* from (${whole}) as t where ${havingOf(operation, context)}`
  if (distinct) await checkDistinct(rows, session)
  const texts = await session.query(
    `select to_json(r)::text from (${found}${limits}${locking(operation['lock'])}) as r`
  )
  const unique = distinct && columns !== undefined
    ? Object.keys(outputKinds(columns, table.columns))
    : groups.length > 0 ? groups : table.key
  const names = order.map(one => Object.keys(one)[0] as string)
  return { texts, ordered: unique.every(column => names.includes(column)) }
}

/** Equal values may have several texts, of which any may be returned: 1.0 and 1.00. */
async function checkDistinct (rows: string, session: Session): Promise<void> {
  const [same] = await session.query(`select (select count(*) from (select distinct ${rows}) as d) =
    (select count(distinct to_json(r)::text) from (select ${rows}) as r)`)
  if (String(same) !== 'true') throw endWith({ kind: 'open' })
}

function havingOf ({ columns, having }: Operation, context: Context): string {
  const kinds = outputKinds(columns as readonly unknown[], context.table.columns)
  return filter(having as object, { ...context, table: { ...context.table, columns: kinds } })
}

type Ordering = Readonly<Record<string, unknown>>

/** `where`, and the rows behind those of `after`: all get a rank together with its values. */
function pageOf (operation: Operation, context: Context): string {
  const conditions = operation['where'] === undefined
    ? []
    : [filter(operation['where'] as object, context)]
  const after = operation['after'] as readonly unknown[] | undefined
  if (after !== undefined) {
    const order = operation['order'] as readonly Ordering[]
    const names = order.map(one => name(Object.keys(one)[0] as string)).join(', ')
    const values = order.map((one, i) => {
      const kind = context.table.columns[Object.keys(one)[0] as string] as Kind
      return `${literal(resolve(after[i], context.results), kind)}::${types[kind]}`
    })
    conditions.push(`t.ctid in (
      with ranked as (
        select place, rank() over (order by ${order.map(one => ordering(one, '')).join(', ')}) as n
        from (
          select ctid as place, ${names} from ${tableName(operation.table)}
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
  update: 'update',
  no_key_update: 'no key update',
  share: 'share',
  key_share: 'key share'
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
