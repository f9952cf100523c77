/**
 * Runs one operation of the model as one SQL statement.
 */
import type { Operation } from './finish-batch.ts'
import {
  columnOf,
  filter,
  literal,
  name,
  quote,
  tableName,
  textOf,
  types
} from './model-filter.ts'
import { readFirst, resolveStored } from './model-reference.ts'
import { buildSource, output, select, type Read } from './model-select.ts'
import { endWith, type Context, type Rows } from './outcome.ts'
import { digitsOf } from './raw-json.ts'
import type { Kind } from './tables.ts'

export async function runOperation (operation: Operation, context: Context): Promise<Rows> {
  switch (operation.op) {
    case 'insert':
      return insert(operation, context)
    case 'select':
      return select(operation, context)
    case 'call':
      return call(operation, context)
    case 'update':
      return operation['key'] !== undefined
        ? changeByKey(operation, context)
        : change(operation, context, source =>
        `update ${tableName(operation.table)} as t set ${
          assignments(operation['set'] as object, context)
        }${source === undefined ? '' : ` from ${source}`}`)
    case 'delete':
      return change(operation, context, source =>
        `delete from ${tableName(operation.table)} as t${
          source === undefined ? '' : ` using ${source}`
        }`)
  }
}

/** `build` takes the rows of `from`, if there are any, and returns a statement without `where`. */
async function change (
  operation: Operation,
  context: Context,
  build: (source: string | undefined) => string
): Promise<Rows> {
  const { from, where, set } = operation as { from?: Joined, where?: object, set?: object }
  // Values and access may be checked in either order.
  if (set !== undefined && context.readOnly) await checkUnused(set, context)
  const source = from && `(${(await buildSource(from, context)).text}) as f`
  const conditions = [
    ...Object.entries(from?.on ?? {}).map(([column, other]) =>
      `t.${name(column)} = ${columnOf(other, { ...context, row: 'f' }).left}`
    ),
    ...where === undefined ? [] : [filter(where, context)]
  ]
  const rows = conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`
  const statement = `${build(source)}${rows}`
  if (operation.op === 'update' && source !== undefined) {
    const [ambiguous] = await context.session.query(`select count(*) > count(distinct t.ctid)
      from ${tableName(operation.table)} as t, ${source}${rows}`)
    if (String(ambiguous) === 'true') throw Object.assign(new Error(), { code: 'rows_ambiguous' })
  }
  const texts = await runReturning(operation, statement, context)
  if (texts.length === 0 && operation.op === 'update') {
    await checkUnused(operation['set'] as object, context)
  }
  return { texts, ordered: false }
}

/** Each row of `values` as an update of its own. None changes what another one reads. */
async function changeByKey (operation: Operation, context: Context): Promise<Rows> {
  const { key, values } = operation as unknown as {
    readonly key: readonly string[],
    readonly values: ReadonlyArray<Record<string, unknown>>
  }
  if (context.readOnly) throw endWith({ kind: 'open' })
  const texts: string[] = []
  for (const row of values) {
    const set = Object.fromEntries(Object.entries(row).filter(([column]) => !key.includes(column)))
    const conditions = key.map(column => `t.${name(column)} = ${literal(row[column], 'int')}`)
    const statement = `update ${tableName(operation.table)} as t set ${
      assignments(set, context)
    } where ${conditions.join(' and ')}`
    const changed = await runReturning(operation, statement, context)
    if (changed.length === 0) await checkUnused(set, context)
    texts.push(...changed)
  }
  return { texts, ordered: true }
}

async function call (operation: Operation, context: Context): Promise<Rows> {
  const { session, results, table } = context
  const args = operation['args'] as Readonly<Record<string, unknown>>
  const values = Object.entries(table.columns).map(([column, kind]) =>
    `${literal(resolveStored(args[column], results, kind), kind)}::${types[kind]}`)
  const text = `select to_json(t)::text from public.echo(${values.join(', ')}) as t`
  return { texts: await session.query(text), ordered: true }
}

type Joined = Read & { readonly on: Readonly<Record<string, string>> }

/** Values that no row receives may or may not be converted. */
async function checkUnused (
  set: object,
  context: Context,
  build: typeof inserted = assigned
): Promise<void> {
  const { session, table } = context
  const values = Object.entries(set).map(([column, value]) =>
    `(${build(column, value, { ...context, kind: table.columns[column] as Kind })})`
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

async function insert (operation: Operation, context: Context): Promise<Rows> {
  const { set } = (operation['on_conflict'] ?? {}) as { readonly set?: object }
  if (set !== undefined) await checkUnused(set, context)
  if (operation['from'] !== undefined) return insertFrom(operation, context)
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

/** Converts the values of an insert to the types of their columns, and inserts nothing. */
export async function convertInserted (operation: Operation, context: Context): Promise<void> {
  const { from, columns, values } = operation as {
    readonly from?: Read,
    readonly columns?: object,
    readonly values?: readonly object[]
  }
  const cells = (values ?? [columns ?? {}]).flatMap(Object.entries).map(([column, value]) => {
    const kind = context.table.columns[column] as Kind
    return `, (${inserted(column, value, { ...context, kind })})::${typeOf(column, kind)}`
  }).join('')
  const source = from === undefined ? '' : ` from (${(await buildSource(from, context)).text}) as f`
  await context.session.query(`select 1${cells}${source}`)
  if (from !== undefined) await checkUnused(columns ?? {}, context, inserted)
}

async function insertFrom (operation: Operation, context: Context): Promise<Rows> {
  const { table, session } = context
  const columns = operation['columns'] as Readonly<Record<string, unknown>>
  // Values and access may be checked in either order.
  if (context.readOnly) await checkUnused(columns, context, inserted)
  const { text, ordered } = await buildSource(operation['from'] as Read, context)
  const [several] = await session.query(`select count(*) > 1 from (${text}) as f`)
  if (String(several) === 'true' && !ordered) throw endWith({ kind: 'open' })
  const values = Object.entries(columns).map(([column, value]) =>
    inserted(column, value, { ...context, kind: table.columns[column] as Kind }))
  const statement = `insert into ${tableName(operation.table)} as t (${
    Object.keys(columns).map(name).join(', ')
  }) select ${values.join(', ')} from (${text}) as f${conflict(operation, context)}`
  const texts = await runReturning(operation, statement, context)
  if (texts.length === 0) await checkUnused(columns, context, inserted)
  return { texts, ordered: true }
}

/** The value of a column for each row of `from`. */
function inserted (
  column: string,
  value: unknown,
  { kind, ...context }: Context & { readonly kind: Kind }
): string {
  const { $col, $value = value } = (typeof value === 'object' && value !== null ? value : {}) as
    Readonly<Record<string, unknown>>
  if ($col !== undefined) return columnOf($col as string, { ...context, row: 'f' }).left
  const stored = literal(resolveStored($value, context.results, kind), kind)
  return deferLiteral(stored, kind, typeOf(column, kind))
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
  const row = operation['columns'] ?? (operation['values'] as readonly unknown[])[0]
  const named = Object.keys(row as object)
  const others = named.filter(column => columns?.includes(column) !== true)
  const inserted = others.length === 0 ? named : others
  const taken = set === undefined
    ? inserted.map(column => `${name(column)} = excluded.${name(column)}`).join(', ')
    : assignments(set, context)
  return ` on conflict ${target} do update set ${taken}${
    where === undefined ? '' : ` where ${filter(where, context)}`
  }`
}

function assignments (set: object, context: Context): string {
  return Object.entries(set).map(([column, value]) =>
    `${name(column)} = ${
      assigned(column, value, { ...context, kind: context.table.columns[column] as Kind })
    }`
  ).join(', ')
}

function assigned (
  column: string,
  value: unknown,
  { kind, ...context }: Context & { readonly kind: Kind }
): string {
  const { results } = context
  const members = typeof value === 'object' && value !== null && !Array.isArray(value) &&
      digitsOf(value) === undefined && readFirst(value) === undefined
    ? Object.entries(value)
    : []
  const [modifier, operand] = members.length === 1 && members[0]?.[0].startsWith('$') === true
    ? members[0]
    : ['$value', value]
  const before = `t.${name(column)}`
  const { $from } = (typeof operand === 'object' && operand !== null ? operand : {}) as
    { readonly $from?: string }
  const source = modifier === '$from' ? operand as string : $from
  const other = source === undefined ? undefined : columnOf(source, { ...context, row: 'f' }).left
  const resolved = other === undefined ? resolveStored(operand, results, kind) : undefined
  const text = other ?? literal(resolved, kind)
  switch (modifier) {
    case '$inc':
      return kind === 'at'
        ? `${before} + make_interval(secs => ${textOf(operand) as string})`
        : `${before} + ${text}`
    case '$dec':
      return `${before} - ${text}`
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
      return append(before, text, kind)
    case '$merge':
      return merge(before, other ?? quote(JSON.stringify(resolved ?? {})))
    case '$from':
      return text
    default:
      return deferLiteral(text, kind, typeOf(column, kind))
  }
}

function typeOf (column: string, kind: Kind): string {
  return column === 'price' ? 'numeric(10, 2)' : types[kind]
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
function append (before: string, value: string, kind: Kind): string {
  const base = kind === 'tags'
    ? `coalesce(${before}, '{}')`
    : `case when jsonb_typeof(coalesce(${before}, '[]')) = 'array'
        then coalesce(${before}, '[]') else unfit() end`
  return `coalesce(${base} || ${value}::${types[kind]}, ${base})`
}

/** NULL counts as empty. Anything but an object is rejected, on either side. */
function merge (before: string, value: string): string {
  const [base, added] = [before, value].map(one => `coalesce(${one}, '{}')::jsonb`) as [
    string,
    string
  ]
  const objects = `jsonb_typeof(${base}) = 'object' and jsonb_typeof(${added}) = 'object'`
  return `case when ${objects} then ${base} || ${added} else unfit() end`
}
