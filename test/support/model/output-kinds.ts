/**
 * The kinds of output columns.
 */
import { tableOf, type Kind, type Table } from './tables.ts'

/** An element of `columns` or `returning`. */
export interface OutputColumn {
  readonly column?: string
  readonly as?: string
  readonly fn?: string
  readonly cast?: string
  readonly distinct?: true
}

const castKinds: Readonly<Record<string, Kind>> = {
  text: 'text',
  int: 'int',
  bigint: 'big',
  numeric: 'num',
  float8: 'float',
  boolean: 'bool',
  date: 'day',
  timestamptz: 'at'
}

/** Casts that every value of a kind allows. */
export const safeCasts: Readonly<Record<Kind, readonly string[]>> = {
  int: ['text', 'bigint', 'numeric', 'float8', 'boolean'],
  big: ['text', 'numeric', 'float8'],
  num: ['text', 'float8'],
  float: ['text', 'numeric'],
  text: ['text'],
  bool: ['text', 'int'],
  day: ['text', 'timestamptz'],
  at: ['text', 'date'],
  tags: ['text'],
  doc: ['text']
}

export const toOutputColumn = (one: unknown): OutputColumn =>
  typeof one === 'string' ? { column: one } : one as OutputColumn

export function outputName ({ column = '', fn, as }: OutputColumn): string {
  return as ?? fn ?? (column.includes('->') ? column.split(/->>?/).at(-1) as string : column)
}

/** The output columns with the kinds that they have in PostgreSQL. */
export function outputKinds (
  columns: readonly unknown[] | undefined,
  all: Table['columns']
): Table['columns'] {
  if (columns === undefined) return all
  return Object.fromEntries(
    columns.flatMap((one): ReadonlyArray<[string, Kind]> =>
      one === '*' ? Object.entries(all) : [kindOf(toOutputColumn(one), all)]
    )
  )
}

function kindOf (one: OutputColumn, all: Table['columns']): [string, Kind] {
  const { column = '', cast, fn } = one
  const stored = column.includes('->>') ? 'text' : column.includes('->') ? 'doc' : all[column]
  const kind = cast === undefined ? stored as Kind : castKinds[cast] as Kind
  if (fn === 'count') return [outputName(one), 'big']
  if (fn === 'sum') return [outputName(one), kind === 'int' ? 'big' : 'num']
  return [outputName(one), fn === 'avg' ? 'num' : kind]
}

/** The columns that an operation returns. Counts are small, and fit a column of integers. */
export function outputOf (operation: Readonly<Record<string, unknown>>): Table['columns'] {
  const { op, columns, returning } = operation
  const shown = (op === 'select' ? columns : returning) as readonly unknown[] | undefined
  const kinds = outputKinds(shown, tableOf(operation).columns)
  const counts = (shown ?? []).map(toOutputColumn).filter(({ fn }) => fn === 'count')
  return { ...kinds, ...Object.fromEntries(counts.map(one => [outputName(one), 'int' as const])) }
}
