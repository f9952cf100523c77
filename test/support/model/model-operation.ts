/**
 * Runs one operation of the model as one SQL statement.
 */
import type { Operation } from './finish-batch.ts'
import { columnOf, filter, literal, name, quote, tableName, textOf, types } from './model-filter.ts'
import { readFirst, resolveStored } from './model-reference.ts'
import { endWith, type Context, type Rows } from './outcome.ts'
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
  const { column, as, fn } = (typeof one === 'string' ? { column: one } : one) as {
    column?: string,
    as?: string,
    fn?: string
  }
  const value = column === undefined ? '*' : columnOf(column, context).left
  const last = column?.split(/->>?/).at(-1)
  return `${fn === undefined ? value : `${fn}(${value})`} as ${name(as ?? fn ?? last as string)}`
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
  const order = (operation['order'] ?? []) as ReadonlyArray<Record<string, unknown>>
  const shown = columns === undefined ? 't.*' : columns.map(one => output(one, context)).join(', ')
  const tail = [
    groups.length === 0 ? '' : ` group by ${groups.map(name).join(', ')}`,
    order.length === 0 ? '' : ` order by ${order.map(one => ordering(one)).join(', ')}`,
    operation['limit'] === undefined ? '' : ` limit ${operation['limit'] as number}`,
    operation['offset'] === undefined ? '' : ` offset ${operation['offset'] as number}`,
    locking(operation['lock'])
  ].join('')
  const texts = await session.query(
    `select to_json(r)::text from (select ${shown} from ${tableName(operation.table)} as t${
      where(operation, context)
    }${tail}) as r`
  )
  const key = groups.length > 0 ? groups : table.key
  const sorted = order.map(one => Object.keys(one)[0] as string)
  return { texts, ordered: key.every(column => sorted.includes(column)) }
}

function ordering (one: Readonly<Record<string, unknown>>): string {
  const [[column, how]] = Object.entries(one) as [[string, unknown]]
  const { direction, nulls } = (typeof how === 'string' ? { direction: how } : how) as {
    direction: string,
    nulls?: string
  }
  return `t.${name(column)} ${direction}${nulls === undefined ? '' : ` nulls ${nulls}`}`
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
