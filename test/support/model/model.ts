/**
 * A reference implementation of batches by docs/reference/language.md. It runs the operations one
 * after the other as SQL with handwritten literals. References are resolved in JavaScript from
 * earlier rows, which are JSON text, so no digit is lost.
 *
 * It returns the expected rows or failures and changes the tables. It shares no code and no
 * technique with the service: no parameters and no references in SQL. It does not validate batches,
 * which come from arbitrary-batch.ts. Where the contract allows several results it returns
 * `unordered` rows, a set of failures, or `open`.
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

/** The rows of one operation as JSON texts. `ordered`: their order is defined. */
export interface Rows {
  readonly texts: readonly string[]
  readonly ordered: boolean
  readonly skipped?: boolean
}
export interface Failure {
  /** The SQLSTATE, or the service's code for errors without PostgreSQL. */
  readonly code: string
  /** The operation; null for a failure at COMMIT. */
  readonly index: number | null
}
export type Outcome =
  | { readonly kind: 'done', readonly results: readonly Rows[] }
  /** One of these. A batch with several errors may fail with any of them. */
  | { readonly kind: 'refused', readonly refusals: readonly Failure[] }
  /**
   * The contract does not define the result, for example which row `$op.0` is if the rows have no
   * defined order.
   */
  | { readonly kind: 'open' }

/** A connection for one transaction. */
interface Session {
  query(text: string): Promise<readonly string[]>
}
interface Context {
  readonly session: Session
  readonly results: readonly Rows[]
  readonly table: Table
  readonly readOnly: boolean
}

/** Thrown to end the batch. */
interface BatchEnd extends Error {
  readonly outcome: Outcome
}
const endWith = (outcome: Outcome): BatchEnd => Object.assign(new Error(outcome.kind), { outcome })
const failWith = (code: string, index: number | null): BatchEnd =>
  endWith({ kind: 'refused', refusals: [{ code, index }] })

const failAt = (index: number | null) => (error: unknown): never => {
  if ('outcome' in (error as object)) throw error
  const { code } = error as { code?: unknown }
  throw failWith(code === 'UNFIT' ? 'value_invalid' : String(code), index)
}

/**
 * Runs a batch on `sql` in one transaction. It is committed unless the batch fails or requests a
 * rollback.
 */
export async function runModel (sql: Sql, { operations, prefer }: Trial): Promise<Outcome> {
  const connection = await sql.reserve()
  const session: Session = {
    async query (text) {
      const rows = await connection.unsafe(text).values()
      return rows.map(([column]) => column as string)
    }
  }
  const isolation = (prefer['isolation'] ?? 'read-committed').replace('-', ' ')
  try {
    await session.query(
      `begin isolation level ${isolation} ${
        prefer['access'] === 'read-only' ? 'read only' : 'read write'
      }; set local timezone = 'UTC'`
    )
    const results: Rows[] = []
    for (const [index, operation] of operations.entries()) {
      const table = modelTables[operation.table.replace('public.', '')] as Table
      const context = { session, results, table, readOnly: prefer['access'] === 'read-only' }
      await session.query('savepoint before')
      const rows = isMet(operation, results)
        ? await runReader(operation, index, context).catch(failAt(index)).catch(
          async error => collectFailures(error, operations, index, context)
        )
        : await skip(operation, index, context)
      results.push(rows)
      checkResult(operations, index, rows)
    }
    await session.query('set constraints all immediate').catch(failAt(null))
    await session.query(prefer['tx'] === 'rollback' ? 'rollback' : 'commit')
    return { kind: 'done', results }
  } catch (error) {
    await session.query('rollback')
    const { outcome } = error as Partial<BatchEnd>
    if (outcome === undefined) throw error
    return outcome
  } finally {
    connection.release()
  }
}

/** Throws all failures that are as correct as `error`, because the operation has several errors. */
async function collectFailures (
  error: BatchEnd,
  operations: readonly Operation[],
  index: number,
  context: Context
): Promise<never> {
  const { outcome } = error
  if (outcome.kind !== 'refused') throw error
  // Values and access may be checked in either order.
  const forbidden = context.readOnly && operations[index]?.op !== 'select'
    ? [{ code: '25006', index }]
    : []
  const alternatives = [
    ...forbidden,
    ...await failuresOfRows(operations[index] as Operation, index, context),
    ...outcome.refusals[0]?.code === '23503'
      ? await failuresOfResult(operations, index, context)
      : []
  ]
  throw endWith({ kind: 'refused', refusals: [...outcome.refusals, ...alternatives] })
}

/**
 * Any failing row of an insert may be reported. Failures of single rows and failures of several
 * rows together may be checked in either order.
 */
async function failuresOfRows (
  operation: Operation,
  index: number,
  context: Context
): Promise<readonly Failure[]> {
  const rows = operation.op === 'insert' ? operation['values'] as readonly unknown[] : []
  if (rows.length < 2) return []
  const failuresWith = async (values: readonly unknown[]): Promise<readonly Failure[]> =>
    failuresOf(() => runOperation({ ...operation, values }, context), index, context)
  const single: Array<readonly Failure[]> = []
  for (const row of rows) single.push(await failuresWith([row]))
  const valid = rows.filter((_, i) => single[i]?.length === 0)
  return [...single.flat(), ...valid.length === 0 ? [] : await failuresWith(valid)]
}

/**
 * PostgreSQL checks foreign keys after the rows are known. The rows may already violate an
 * expectation or lack what later operations refer to.
 */
async function failuresOfResult (
  operations: readonly Operation[],
  index: number,
  context: Context
): Promise<readonly Failure[]> {
  return failuresOf(
    async () => {
      await context.session.query("set local session_replication_role = 'replica'")
      checkResult(operations, index, await runOperation(operations[index] as Operation, context))
    },
    index,
    context
  )
}

async function failuresOf (
  work: () => Promise<unknown>,
  index: number,
  { session }: Context
): Promise<readonly Failure[]> {
  await session.query('rollback to before')
  try {
    await work().catch(failAt(index))
    return []
  } catch (error) {
    const { outcome } = error as BatchEnd
    return outcome.kind === 'refused' ? outcome.refusals : []
  }
}

// Checks of results: the expected number of rows, and what later operations refer to

function checkResult (
  operations: readonly Operation[],
  index: number,
  { texts, skipped = false }: Rows
): void {
  const { expect } = operations[index] as Operation
  if (!skipped && !isWithin(texts.length, expect)) throw failWith('expectation_failed', index)
  const missing = operations.flatMap((reader, at) =>
    at <= index ? [] : referencesOf(reader, index).map(needs => ({ at, ...needs }))
  )
  const row = missing.find(({ at, rows }) =>
    operations[at]?.['when'] === undefined && texts.length < rows
  )
  if (row !== undefined) throw failWith('reference_row_missing', row.at)
  const columns = Object.keys(texts.length === 0 ? {} : readRaw(texts[0] as string) as object)
  const column = missing.find(({ column }) =>
    texts.length > 0 && column !== undefined && !columns.includes(column)
  )
  if (column !== undefined) throw failWith('reference_column_missing', column.at)
}

/** Whether a number of rows is that of `expect` or `when`. */
function isWithin (rows: number, expected: unknown): boolean {
  const { min = 0, max = Infinity } = typeof expected === 'number'
    ? { min: expected, max: expected }
    : expected as { min?: number, max?: number } ?? {}
  return rows >= min && rows <= max
}

// Conditions between operations
// ------------------------------------------------------------

function isMet ({ when = {} }: Operation, results: readonly Rows[]): boolean {
  return Object.entries(when as object).every(([id, expected]) =>
    isWithin(results[Number(id.slice(1))]?.texts.length as number, expected)
  )
}

/** Runs an operation whose rows to read exist. One with `when` finds out only now. */
async function runReader (operation: Operation, index: number, context: Context): Promise<Rows> {
  const { results } = context
  const missing = results.some(({ texts }, source) =>
    operation['when'] !== undefined &&
    referencesOf(operation, source).some(({ rows }) => rows > texts.length)
  )
  const none = firstsOf(operation).some(first => chooseRow(first, results) === undefined)
  if (missing || none) throw failWith('reference_row_missing', index)
  return runOperation(operation, context)
}

/** What does nothing is checked all the same: its values may be converted, or not. */
async function skip (operation: Operation, index: number, context: Context): Promise<Rows> {
  const { op, on_conflict: conflict } = operation
  const { results, readOnly } = context
  if (readOnly && op !== 'select') throw failWith('25006', index)
  if (op === 'insert' && (conflict as Conflict | undefined)?.do === 'update') {
    throw endWith({ kind: 'open' })
  }
  const readable = results.every(({ texts }, source) =>
    referencesOf(operation, source).every(({ rows }) => rows <= texts.length)
  ) && firstsOf(operation).every(first => chooseRow(first, results) !== undefined)
  if (op !== 'insert' && readable) {
    const failures = await failuresOf(() => runOperation(operation, context), index, context)
    await context.session.query('rollback to before')
    if (failures.length > 0) throw endWith({ kind: 'open' })
  }
  return { texts: [], ordered: true, skipped: true }
}

/** All `$first` in a value, each as its references. */
function firstsOf (node: unknown): ReadonlyArray<readonly string[]> {
  if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) return []
  const first = readFirst(node)
  return first === undefined ? Object.values(node).flatMap(firstsOf) : [first]
}

function readFirst (node: unknown): readonly string[] | undefined {
  return typeof node === 'object' && node !== null && Object.hasOwn(node, '$first')
    ? (node as { readonly $first: readonly string[] }).$first
    : undefined
}

function chooseRow (first: readonly string[], results: readonly Rows[]): string | undefined {
  return first.find(text => {
    const { source, row } = readReference(text) as Reference
    return Number(row) < (results[source] as Rows).texts.length
  })
}

interface Reference {
  readonly source: number
  readonly row: number | '*'
  readonly column: string | undefined
}

/** Parses a reference. The id of an operation is `o` and its index. */
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
 * Returns the columns of operation `source` that an operation refers to, and the number of rows
 * that it needs.
 */
function referencesOf (
  operation: Operation,
  source: number
): ReadonlyArray<{ readonly rows: number, readonly column: string | undefined }> {
  const found: Array<{ rows: number, column: string | undefined }> = []
  /** `matchesAll`: with an empty list in this place the condition would match every row. */
  const visit = (node: unknown, { negated = false, matchesAll = false } = {}): void => {
    const first = readFirst(node)
    if (first !== undefined) {
      const columns = first.map(text => readReference(text) as Reference)
        .filter(reference => reference.source === source)
      found.push(...columns.map(({ column }) => ({ column, rows: 0 })))
      return
    }
    const reference = readReference(node)
    if (reference?.source === source) {
      found.push({
        column: reference.column,
        rows: reference.row !== '*' ? reference.row + 1 : matchesAll ? 1 : 0
      })
    }
    if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) return
    for (const [key, value] of Object.entries(node)) {
      const inner = key === 'not' ? !negated : negated
      visit(value, {
        negated: inner,
        matchesAll: ['in', 'any', 'ov', 'cd'].includes(key)
          ? negated
          : ['nin', 'all', 'cs', 'has_keys_all'].includes(key)
              ? !negated
              : matchesAll
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

/** Returns all values without members. */
function leaves (node: unknown): readonly unknown[] {
  if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) return [node]
  return readFirst(node) === undefined ? Object.values(node).flatMap(leaves) : [node]
}

// Values
// ------------------------------------------------------------

const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`
const name = (column: string): string => `"${column}"`
const escaped = /^\$\$+[A-Za-z_][A-Za-z0-9_]*(\.|$)/
const array = (elements: readonly string[]): string => `array[${elements.join(', ')}]`

/**
 * Replaces the references in JSON by their values and removes the `$` that escapes text which looks
 * like a reference.
 */
function resolve (node: unknown, results: readonly Rows[]): unknown {
  const reference = readReference(node)
  if (reference !== undefined) return lookUp(reference, results)
  if (typeof node === 'string') return escaped.test(node) ? node.slice(1) : node
  if (typeof node !== 'object' || node === null || digitsOf(node) !== undefined) return node
  const first = readFirst(node)
  if (first !== undefined) return resolve(chooseRow(first, results), results)
  if (Array.isArray(node)) return node.map(one => resolve(one, results))
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => [key, resolve(value, results)])
  )
}

/**
 * Returns a value to store. The outcome is open for a document whose reference yields null: the
 * batch may run twice to tell the JSON null from NULL, which advances sequences a second time.
 */
function resolveStored (node: unknown, results: readonly Rows[], kind: Kind): unknown {
  const value = resolve(node, results)
  const refers = readReference(node) !== undefined || readFirst(node) !== undefined
  if (kind === 'doc' && value === null && refers) {
    throw endWith({ kind: 'open' })
  }
  return value
}

function lookUp ({ source, row, column }: Reference, results: readonly Rows[]): unknown {
  const { texts, ordered } = results[source] as Rows
  const rows = texts.map(text => readRaw(text) as Record<string, unknown>)
  if (!ordered && rows.length > 1) throw endWith({ kind: 'open' })
  if (row === '*') return rows.map(one => one[column as string])
  return column === undefined ? rows[row] : (rows[row] as Record<string, unknown>)[column]
}

/** Resolves a list operand, for which the order of rows is irrelevant. */
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

/** Returns a scalar as text, spelled as in the JSON; undefined for null. */
function textOf (value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value === 'string') return value
  return digitsOf(value) ?? JSON.stringify(value)
}

/** Returns a literal for a column of this kind, without a type if PostgreSQL can infer it. */
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
  const { left, kind } = columnOf(key, table)
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

/** Returns a column or a path in its jsonb, with the parentheses that SQL requires. */
function columnOf (key: string, table: Table): { readonly left: string, readonly kind: Kind } {
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
  { session, table }: Context
): Promise<readonly string[]> {
  const columns = returning as readonly unknown[] | undefined
  const shown = columns === undefined
    ? 't.*'
    : columns.length === 0
      ? '1'
      : columns.map(one => output(one, table)).join(', ')
  const rows = await session.query(
    `with t as (${statement} returning ${shown}) select to_json(t)::text from t`
  )
  return columns?.length === 0 ? rows.map(() => '{}') : rows
}

/** Returns the SQL of one element of `columns` or `returning`. */
function output (one: unknown, table: Table): string {
  const { column, as, fn } = (typeof one === 'string' ? { column: one } : one) as {
    column?: string,
    as?: string,
    fn?: string
  }
  const value = column === undefined ? '*' : columnOf(column, table).left
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
    `insert into public.${bare(operation)} as t (${columns.map(name).join(', ')}) values ${
      rows.join(', ')
    }${conflict(operation, context)}`
  return { texts: await runReturning(operation, statement(rows), context), ordered: true }
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
  const shown = columns === undefined ? 't.*' : columns.map(one => output(one, table)).join(', ')
  const tail = [
    groups.length === 0 ? '' : ` group by ${groups.map(name).join(', ')}`,
    order.length === 0 ? '' : ` order by ${order.map(one => ordering(one)).join(', ')}`,
    operation['limit'] === undefined ? '' : ` limit ${operation['limit'] as number}`,
    operation['offset'] === undefined ? '' : ` offset ${operation['offset'] as number}`,
    locking(operation['lock'])
  ].join('')
  const texts = await session.query(
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
