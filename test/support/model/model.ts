/**
 * What a batch should do, by docs/reference/language.md: an interpreter that runs its operations
 * one after the other, awaiting each, as SQL with literals written by hand; references are looked
 * up in JavaScript, in rows that were fetched before as JSON text, so that no digit is lost.
 *
 * In charge of: rows, failures and what is left in the tables. It shares nothing with the service:
 * no parameter, no published row, no code. Refuses to: check the grammar (batches come from
 * arbitrary-batch.ts), to be fast, and to say more than the contract says: what that leaves open is
 * told as `unordered`, as a set of failures, or as `open`.
 */
import type { Sql } from 'postgres'
import {
  digitsOf,
  modelTables,
  readRaw,
  type Kind,
  type Operation,
  type Table,
  type Trial
} from './arbitrary-batch.ts'

/** The rows of one operation as JSON texts. */
export interface Rows {
  readonly texts: readonly string[]
  readonly ordered: boolean
}
export interface Refusal {
  /** SQLSTATE, or code of the service where PostgreSQL has no part in it. */
  readonly code: string
  /** null: at COMMIT. */
  readonly index: number | null
}
export type Outcome =
  | { readonly kind: 'done', readonly results: readonly Rows[] }
  /** One of these; which one is open when the batch is wrong in several ways. */
  | { readonly kind: 'refused', readonly refusals: readonly Refusal[] }
  /**
   * The contract leaves open what happens, e.g. which of several rows `$op.0` means when their
   * order is not defined.
   */
  | { readonly kind: 'open' }

/** A connection of its own for one transaction. */
interface Session {
  ask(text: string): Promise<readonly string[]>
}
interface Context {
  readonly session: Session
  readonly results: readonly Rows[]
  readonly table: Table
  readonly readOnly: boolean
}

/** Thrown where the batch ends. */
interface Ending extends Error {
  readonly ending: Outcome
}
const ends = (ending: Outcome): Ending => Object.assign(new Error(ending.kind), { ending })
const refuse = (code: string, index: number | null): Ending =>
  ends({ kind: 'refused', refusals: [{ code, index }] })

const refusedAt = (index: number | null) => (error: unknown): never => {
  if ('ending' in (error as object)) throw error
  const { code } = error as { code?: unknown }
  throw refuse(code === 'UNFIT' ? 'value_invalid' : String(code), index)
}

/**
 * Runs a batch on `sql`, in one transaction that is committed unless the batch says otherwise or
 * fails.
 */
export async function runModel (sql: Sql, { operations, prefer }: Trial): Promise<Outcome> {
  const connection = await sql.reserve()
  const session: Session = {
    ask: async text => (await connection.unsafe(text).values()).map(([column]) => column as string)
  }
  const isolation = (prefer['isolation'] ?? 'read-committed').replace('-', ' ')
  try {
    await session.ask(
      `begin isolation level ${isolation} ${
        prefer['access'] === 'read-only' ? 'read only' : 'read write'
      }; set local timezone = 'UTC'`
    )
    const results: Rows[] = []
    for (const [index, operation] of operations.entries()) {
      const table = modelTables[operation.table.replace('public.', '')] as Table
      const context = { session, results, table, readOnly: prefer['access'] === 'read-only' }
      await session.ask('savepoint before')
      const rows = await runOperation(operation, context).catch(refusedAt(index)).catch(
        async error => alsoRefused(error, operations, index, context)
      )
      results.push(rows)
      checkAnswer(operations, index, rows)
    }
    await session.ask('set constraints all immediate').catch(refusedAt(null))
    await session.ask(prefer['tx'] === 'rollback' ? 'rollback' : 'commit')
    return { kind: 'done', results }
  } catch (error) {
    await session.ask('rollback')
    const { ending } = error as Partial<Ending>
    if (ending === undefined) throw error
    return ending
  } finally {
    connection.release()
  }
}

/** Every failure that is as right as `error`, for the operation is wrong in more ways than one. */
async function alsoRefused (
  error: Ending,
  operations: readonly Operation[],
  index: number,
  context: Context
): Promise<never> {
  const { ending } = error
  if (ending.kind !== 'refused') throw error
  // Whether a value or the access is looked at first is open.
  const forbidden = context.readOnly && operations[index]?.op !== 'select'
    ? [{ code: '25006', index }]
    : []
  const others = [
    ...forbidden,
    ...await refusedRows(operations[index] as Operation, index, context),
    ...ending.refusals[0]?.code === '23503' ? await refusedAnswer(operations, index, context) : []
  ]
  throw ends({ kind: 'refused', refusals: [...ending.refusals, ...others] })
}

/**
 * Which of several rows of an insert fails first is open, and whether one that fails alone comes
 * before those that fail together.
 */
async function refusedRows (
  operation: Operation,
  index: number,
  context: Context
): Promise<readonly Refusal[]> {
  const rows = operation.op === 'insert' ? operation['values'] as readonly unknown[] : []
  if (rows.length < 2) return []
  const tried = async (values: readonly unknown[]): Promise<readonly Refusal[]> =>
    refusalsOf(() => runOperation({ ...operation, values }, context), index, context)
  const alone: Array<readonly Refusal[]> = []
  for (const row of rows) alone.push(await tried([row]))
  const good = rows.filter((_, i) => alone[i]?.length === 0)
  return [...alone.flat(), ...good.length === 0 ? [] : await tried(good)]
}

/**
 * Foreign keys are looked at when the rows are known already, and these may not be what was to
 * come.
 */
async function refusedAnswer (
  operations: readonly Operation[],
  index: number,
  context: Context
): Promise<readonly Refusal[]> {
  return refusalsOf(
    async () => {
      await context.session.ask("set local session_replication_role = 'replica'")
      checkAnswer(operations, index, await runOperation(operations[index] as Operation, context))
    },
    index,
    context
  )
}

async function refusalsOf (
  work: () => Promise<unknown>,
  index: number,
  { session }: Context
): Promise<readonly Refusal[]> {
  await session.ask('rollback to before')
  try {
    await work().catch(refusedAt(index))
    return []
  } catch (error) {
    const { ending } = error as Ending
    return ending.kind === 'refused' ? ending.refusals : []
  }
}

// What an operation's answer must be: as many rows as expected, and what later operations refer to
// ------------------------------------------------

function checkAnswer (operations: readonly Operation[], index: number, { texts }: Rows): void {
  const { expect } = operations[index] as Operation
  const { min = 0, max = Infinity } = typeof expect === 'number'
    ? { min: expect, max: expect }
    : expect as { min?: number, max?: number } ?? {}
  if (texts.length < min || texts.length > max) throw refuse('expectation_failed', index)
  const missing = operations.flatMap((reader, at) =>
    at <= index ? [] : referencesOf(reader, index).map(needs => ({ at, ...needs }))
  )
  const row = missing.find(({ rows }) => texts.length < rows)
  if (row !== undefined) throw refuse('reference_row_missing', row.at)
  const columns = Object.keys(texts.length === 0 ? {} : readRaw(texts[0] as string) as object)
  const column = missing.find(({ column }) =>
    texts.length > 0 && column !== undefined && !columns.includes(column)
  )
  if (column !== undefined) throw refuse('reference_column_missing', column.at)
}

interface Reference {
  readonly source: number
  readonly row: number | '*'
  readonly column: string | undefined
}

/** Ids of operations are `o` and their index. */
function readReference (text: unknown): Reference | undefined {
  const [, source, rest = ''] = typeof text === 'string'
    ? /^\$o(\d)(?:\.(.*))?$/.exec(text) ?? []
    : []
  if (source === undefined) return undefined
  const parts = rest === '' ? [] : rest.split('.')
  const first = parts[0]
  const named = first !== undefined && !/^(\d+|\*)$/.test(first)
  return {
    source: Number(source),
    row: first === '*' ? '*' : named || first === undefined ? 0 : Number(first),
    column: parts[named ? 0 : 1]
  }
}

/**
 * What an operation refers to of the rows of operation `source`, and how many rows there must be
 * for it.
 */
function referencesOf (
  operation: Operation,
  source: number
): ReadonlyArray<{ readonly rows: number, readonly column: string | undefined }> {
  const found: Array<{ rows: number, column: string | undefined }> = []
  /** `meets`: the empty list in this place would make the condition meet every row. */
  const visit = (node: unknown, { negated = false, meets = false } = {}): void => {
    const reference = readReference(node)
    if (reference?.source === source) {
      found.push({
        column: reference.column,
        rows: reference.row !== '*' ? reference.row + 1 : meets ? 1 : 0
      })
    }
    if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) return
    for (const [key, value] of Object.entries(node)) {
      const inner = key === 'not' ? !negated : negated
      visit(value, {
        negated: inner,
        meets: ['in', 'any', 'ov', 'cd'].includes(key)
          ? negated
          : ['nin', 'all', 'cs', 'has_keys_all'].includes(key)
              ? !negated
              : meets
      })
    }
  }
  for (const [member, value] of Object.entries(operation)) {
    if (member !== 'where' && member !== 'on_conflict') {
      for (const one of leaves(value)) visit(one)
    } else visit(value)
  }
  return found
}

/** Every value that holds no other. */
function leaves (node: unknown): readonly unknown[] {
  if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) return [node]
  return Object.values(node).flatMap(leaves)
}

// Values
// ------------------------------------------------------------

const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`
const name = (column: string): string => `"${column}"`
const escaped = /^\$\$+[A-Za-z_][A-Za-z0-9_]*(\.|$)/
const array = (elements: readonly string[]): string => `array[${elements.join(', ')}]`

/**
 * JSON with its references replaced by what they mean, and without the `$` that makes text of what
 * looks like one.
 */
function resolve (node: unknown, results: readonly Rows[]): unknown {
  const reference = readReference(node)
  if (reference !== undefined) return lookUp(reference, results)
  if (typeof node === 'string') return escaped.test(node) ? node.slice(1) : node
  if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) return node
  if (Array.isArray(node)) return node.map(one => resolve(one, results))
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => [key, resolve(value, results)])
  )
}

/**
 * Returns a value to store. The outcome is open for a document whose reference yields null: the
 * batch may run twice to tell the JSON null from NULL, which advances sequences a second time.
 */
function given (node: unknown, results: readonly Rows[], kind: Kind): unknown {
  const value = resolve(node, results)
  if (kind === 'doc' && value === null && readReference(node) !== undefined) {
    throw ends({ kind: 'open' })
  }
  return value
}

function lookUp ({ source, row, column }: Reference, results: readonly Rows[]): unknown {
  const { texts, ordered } = results[source] as Rows
  const rows = texts.map(text => readRaw(text) as Record<string, unknown>)
  if (!ordered && rows.length > 1) throw ends({ kind: 'open' })
  if (row === '*') return rows.map(one => one[column as string])
  return column === undefined ? rows[row] : (rows[row] as Record<string, unknown>)[column]
}

/** A list as an operand, in which the order of rows means nothing. */
function resolveList (list: unknown, results: readonly Rows[]): readonly unknown[] {
  const reference = readReference(list)
  if (reference?.row === '*') {
    return lookUp(
      reference,
      results.map(({ texts }) => ({ texts, ordered: true }))
    ) as readonly unknown[]
  }
  return resolve(list, results) as readonly unknown[]
}

/** A scalar as text, in the spelling of the JSON; undefined for null. */
function textOf (value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value === 'string') return value
  return digitsOf(value) ?? JSON.stringify(value)
}

/** A literal for a column of this kind, without a type where PostgreSQL shall find it. */
function literal (value: unknown, kind: Kind): string {
  if (value === null || value === undefined) return 'null'
  if (kind === 'doc') return `${quote(JSON.stringify(value))}::jsonb`
  if (kind === 'tags' && Array.isArray(value)) {
    return `${array(value.map(one => literal(one, 'text')))}::text[]`
  }
  return quote(textOf(value) as string)
}

const types: Readonly<Record<Kind, string>> = {
  int: 'int',
  big: 'bigint',
  num: 'numeric',
  float: 'float8',
  text: 'text',
  bool: 'boolean',
  day: 'date',
  at: 'timestamptz',
  tags: 'text[]',
  doc: 'jsonb'
}

// Filters
// ------------------------------------------------------------

const symbols: Readonly<Record<string, string>> = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  like: 'like',
  ilike: 'ilike',
  match: '~',
  imatch: '~*',
  isdistinct: 'is distinct from',
  cs: '@>',
  cd: '<@',
  ov: '&&',
  has_key: '?',
  has_keys_any: '?|',
  has_keys_all: '?&'
}

function filter (node: object, context: Context): string {
  return Object.entries(node).map(([key, value]) => {
    if (key === 'and' || key === 'or') {
      return `(${(value as object[]).map(one => `(${filter(one, context)})`).join(` ${key} `)})`
    }
    if (key === 'not') return `(not (${filter(value as object, context)}))`
    return tests(key, value as object, context)
  }).join(' and ')
}

function tests (column: string, node: object, context: Context): string {
  return Object.entries(node).map(([operator, operand]) =>
    operator === 'not'
      ? `(not (${tests(column, operand as object, context)}))`
      : test(column, operator, operand, context)
  ).join(' and ')
}

function test (
  key: string,
  operator: string,
  operand: unknown,
  { results, table }: Context
): string {
  const { left, kind } = place(key, table)
  const one = (value: unknown): string => literal(resolve(value, results), kind)
  const list = (value: unknown): string =>
    `${array(resolveList(value, results).map(one => literal(one, kind)))}::${types[kind]}[]`
  const symbol = symbols[operator] as string
  const { $col, $excluded, $value, any, all } =
    (typeof operand === 'object' && operand !== null ? operand : {}) as Record<string, unknown>
  if (operator === 'is') {
    return `${left} is ${operand === 'not_null' ? 'not null' : String(operand)}`
  }
  if (operator === 'in') return `${left} = any (${list(operand)})`
  if (operator === 'nin') return `${left} <> all (${list(operand)})`
  if (operator === 'between') {
    return `${left} between ${(operand as unknown[]).map(one).join(' and ')}`
  }
  if (operator.startsWith('has_key')) {
    return `${left} ${symbol} ${
      operator === 'has_key'
        ? `${literal(resolve(operand, results), 'text')}::text`
        : `${array((operand as string[]).map(quote))}::text[]`
    }`
  }
  if ($col !== undefined) return `${left} ${symbol} t.${name($col as string)}`
  if ($excluded !== undefined) return `${left} ${symbol} excluded.${name($excluded as string)}`
  if ($value !== undefined) return `${left} ${symbol} ${one($value)}`
  if (any !== undefined) return `${left} ${symbol} any (${list(any)})`
  if (all !== undefined) return `${left} ${symbol} all (${list(all)})`
  return `${left} ${symbol} ${one(operand)}`
}

/** A column, or a place in its jsonb, in the brackets that SQL wants. */
function place (key: string, table: Table): { readonly left: string, readonly kind: Kind } {
  const [column = '', ...steps] = key.split(/(->>?)/)
  if (steps.length === 0) return { left: `t.${name(column)}`, kind: table.columns[column] as Kind }
  const path = steps.map(step =>
    step.startsWith('->') ? ` ${step} ` : /^-?\d+$/.test(step) ? step : quote(step)
  ).join('')
  return { left: `(t.${name(column)}${path})`, kind: steps.includes('->>') ? 'text' : 'doc' }
}

// Operations
// ------------------------------------------------------------

async function runOperation (operation: Operation, context: Context): Promise<Rows> {
  switch (operation.op) {
    case 'insert':
      return insert(operation, context)
    case 'select':
      return select(operation, context)
    case 'update':
      return change(
        operation,
        context,
        `update public.${bare(operation)} as t set ${
          assignments(operation['set'] as object, context)
        }`
      )
    case 'delete':
      return change(operation, context, `delete from public.${bare(operation)} as t`)
  }
}

const bare = ({ table }: Operation): string => name(table.replace('public.', ''))

function where ({ where: conditions }: Operation, context: Context): string {
  return conditions === undefined ? '' : ` where ${filter(conditions as object, context)}`
}

async function change (operation: Operation, context: Context, statement: string): Promise<Rows> {
  const texts = await answer(operation, `${statement}${where(operation, context)}`, context)
  if (texts.length === 0 && operation.op === 'update') {
    await checkUnused(operation['set'] as object, context)
  }
  return { texts, ordered: false }
}

/** Whether values that no row is given are looked at is open. */
async function checkUnused (set: object, { session, table, results }: Context): Promise<void> {
  const values = Object.entries(set).map(([column, value]) =>
    `(${assigned(column, value, { results, kind: table.columns[column] as Kind })})`
  ).filter(value => value.startsWith('((select'))
  await session.ask('savepoint unused')
  await session.ask(`select 1${values.map(value => `, ${value}`).join('')}`).catch(() => {
    throw ends({ kind: 'open' })
  })
}

/** Runs a change and fetches its rows; with `returning: []` as many empty ones. */
async function answer (
  { returning }: Operation,
  statement: string,
  { session, table }: Context
): Promise<readonly string[]> {
  const columns = returning as readonly unknown[] | undefined
  const shown = columns === undefined
    ? 't.*'
    : columns.length === 0
      ? '1'
      : columns.map(one => output(one, table)).join(', ')
  const rows = await session.ask(
    `with t as (${statement} returning ${shown}) select to_json(t)::text from t`
  )
  return columns?.length === 0 ? rows.map(() => '{}') : rows
}

/** One column of `columns` or `returning`. */
function output (one: unknown, table: Table): string {
  const { column, as, fn } = (typeof one === 'string' ? { column: one } : one) as {
    column?: string,
    as?: string,
    fn?: string
  }
  const value = column === undefined ? '*' : place(column, table).left
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
            given(row[column], results, table.columns[column] as Kind),
            table.columns[column] as Kind
          )
          : 'default'
      ).join(', ')
    })`
  )
  const statement = (rows: readonly string[]): string =>
    `insert into public.${bare(operation)} as t (${columns.map(name).join(', ')}) values ${
      rows.join(', ')
    }${conflict(operation, context)}`
  return { texts: await answer(operation, statement(rows), context), ordered: true }
}

interface Conflict {
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
      digitsOf(value) === undefined
    ? Object.entries(value)
    : []
  const [modifier, operand] = members.length === 1 && members[0]?.[0].startsWith('$') === true
    ? members[0]
    : ['$value', value]
  const before = `t.${name(column)}`
  const resolved = given(operand, results, kind)
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
      return late(text, kind, column === 'price' ? 'numeric(10, 2)' : types[kind])
  }
}

/** A literal that is not looked at before a row is given it. */
function late (given: string, kind: Kind, type: string): string {
  return given.startsWith("'") && kind !== 'text' && kind !== 'doc'
    ? `(select ${given}::text)::${type}`
    : given
}

/**
 * NULL counts as empty. JSON that is not an array is refused. An array adds its elements to jsonb,
 * any other value adds itself.
 */
function append (before: string, value: unknown, kind: Kind): string {
  const base = kind === 'tags'
    ? `coalesce(${before}, '{}')`
    : `case when jsonb_typeof(coalesce(${before}, '[]')) = 'array'
        then coalesce(${before}, '[]') else unfit() end`
  return value === null || value === undefined ? base : `${base} || ${literal(value, kind)}`
}

/** NULL counts as empty. Anything but an object is refused, on either side. */
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
  const shown = columns === undefined ? 't.*' : columns.map(one => output(one, table)).join(', ')
  const tail = [
    groups.length === 0 ? '' : ` group by ${groups.map(name).join(', ')}`,
    order.length === 0 ? '' : ` order by ${order.map(one => ordering(one)).join(', ')}`,
    operation['limit'] === undefined ? '' : ` limit ${operation['limit'] as number}`,
    operation['offset'] === undefined ? '' : ` offset ${operation['offset'] as number}`,
    locking(operation['lock'])
  ].join('')
  const texts = await session.ask(
    `select to_json(r)::text from (select ${shown} from public.${bare(operation)} as t${
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
