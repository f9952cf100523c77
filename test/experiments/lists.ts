/**
 * Lists of integers in a table, and random transactions that append to them and read them. An
 * element is appended at most once, so a list shows the order of the transactions.
 */
import type { Level } from '../support/elle/levels.ts'
import type { MicroOperation } from '../support/elle/history.ts'

export const levels: readonly Level[] = ['serializable', 'repeatable-read', 'read-committed']

/** A level has a table of its own, because its transactions must not meet those of other levels. */
const tableOf = (level: Level): string => `lists_${level.replace('-', '_')}`

/** Lists with even keys exist from the start and are updated, the others are inserted first. */
const EXISTING = 10_000

export const schema = `
  ${levels.map(tableOf).map(table => `
    create table ${table} (key int primary key, elements int[] not null default '{}');
    insert into ${table} select 2 * i from generate_series(0, ${EXISTING - 1}) as i;`).join('')}
  do $$ begin
    execute format('alter database %I set deadlock_timeout = ''10ms''', current_database());
  end $$;`

/** The lists in use at a time. The first ones are used most. */
const OPEN = 5

/** After this many appends a list is replaced, so that responses stay short. */
const MOST_APPENDS = 16

const MOST_OPERATIONS = 5

export interface TransactionMaker {
  /** Returns the operations of the next transaction; the results of reads are null. */
  next(random: () => number): readonly MicroOperation[]
  /** All keys used so far. */
  keys(): readonly number[]
}

/** Creates the source of the transactions of one history. */
export function createTransactionMaker (): TransactionMaker {
  const open = Array.from({ length: OPEN }, (_, key) => ({ key, appends: 0 }))
  let nextKey = OPEN
  let nextElement = 1
  const makeOperation = (random: () => number): MicroOperation => {
    const place = Math.floor(OPEN * random() ** 2)
    const list = open[place] as typeof open[number]
    if (random() < 0.5) return ['r', list.key, null]
    list.appends++
    if (list.appends === MOST_APPENDS) open[place] = { key: nextKey++, appends: 0 }
    return ['append', list.key, nextElement++]
  }
  return {
    next: random =>
      Array.from({ length: 1 + Math.floor(MOST_OPERATIONS * random()) }, () =>
        makeOperation(random)),
    keys: () => Array.from({ length: nextKey }, (_, key) => key)
  }
}

/** Returns the batch of a transaction. The ids of its operations are their positions. */
export function toBatch (level: Level, operations: readonly MicroOperation[]): readonly object[] {
  const table = tableOf(level)
  return operations.map(([name, key, element], i) => {
    const id = `o${i}`
    if (name === 'r') {
      return { id, op: 'select', table, columns: ['elements'], where: { key: { eq: key } } }
    }
    const set = { elements: { $append: [element] } }
    return Number(key) % 2 === 0 && Number(key) < 2 * EXISTING
      ? { id, op: 'update', table, set, where: { key: { eq: key } }, expect: 1 }
      : {
          id,
          op: 'insert',
          table,
          values: [{ key, elements: [element] }],
          on_conflict: { columns: ['key'], do: 'update', set }
        }
  })
}

/** Returns the operations with the results of the reads, from the body of a response. */
export function withResults (
  operations: readonly MicroOperation[],
  text: string
): readonly MicroOperation[] {
  const { data } = JSON.parse(text) as {
    readonly data: Readonly<Record<string, ReadonlyArray<{ readonly elements: readonly number[] }>>>
  }
  return operations.map((operation, i) =>
    operation[0] === 'r' ? ['r', operation[1], data[`o${i}`]?.[0]?.elements ?? []] : operation
  )
}
