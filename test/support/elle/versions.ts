/**
 * Reconstructs the order in which elements were appended to each list, and finds the anomalies that
 * need no graph: reads of what was never committed, lost and repeated elements.
 */
import { appendsOf, readsOf, type Key, type Transaction } from './history.ts'

/** What a history shows about the lists. */
export interface Versions {
  /** The longest list that was read of each key. */
  readonly orders: ReadonlyMap<Key, readonly number[]>
  /** Returns the transaction that appended the element. */
  writerOf(key: Key, element: number): Transaction | undefined
  /** The transactions that are known to be committed: answered or observed by others. */
  readonly committed: ReadonlySet<Transaction>
}

export interface Anomaly {
  /** The name, by which levels.ts looks up the levels that allow it. */
  readonly type: string
  readonly text: string
}

/** Reads the order of every list from the history. */
export function orderVersions (transactions: readonly Transaction[]): Versions {
  const writers = new Map<string, Transaction>()
  for (const transaction of transactions) {
    for (const [, key, element] of appendsOf(transaction)) {
      writers.set(`${key} ${element}`, transaction)
    }
  }
  const writerOf: Versions['writerOf'] = (key, element) => writers.get(`${key} ${element}`)
  const orders = new Map<Key, readonly number[]>()
  for (const { key, list } of transactions.flatMap(readsOf)) {
    if (list.length >= (orders.get(key)?.length ?? 0)) orders.set(key, list)
  }
  const observed = [...orders].flatMap(([key, order]) =>
    order.map(element => writerOf(key, element))
  )
  const committed = new Set(
    [...transactions.filter(({ outcome }) => outcome === 'ok'), ...observed].filter(transaction =>
      transaction !== undefined && transaction.outcome !== 'fail'
    )
  )
  return { orders, writerOf, committed: committed as Set<Transaction> }
}

/** Finds the anomalies that are visible without the graph. */
export function findListAnomalies (
  transactions: readonly Transaction[],
  versions: Versions
): readonly Anomaly[] {
  return [
    ...transactions.flatMap(transaction => checkReads(transaction, versions)),
    ...findLostAppends(transactions, versions),
    ...findLostUpdates(transactions)
  ]
}

function checkReads (reader: Transaction, versions: Versions): readonly Anomaly[] {
  return readsOf(reader).flatMap(({ key, list, at }) => {
    const types = new Set<string>()
    if (new Set(list).size < list.length) types.add('duplicate-elements')
    const order = versions.orders.get(key) ?? []
    if (list.some((element, i) => element !== order[i])) types.add('incompatible-order')
    for (const element of list) {
      const writer = versions.writerOf(key, element)
      if (writer === undefined) types.add('unknown-element')
      else if (writer.outcome === 'fail') types.add('G1a')
    }
    if (isIntermediate(reader, key, list, versions)) types.add('G1b')
    if (!showsOwnAppends(reader, key, list, at)) types.add('internal')
    return Array.from(types, type => ({
      type,
      text: `${describe(reader)}: read of ${key}; the longest read is [${order.join()}]`
    }))
  })
}

/** Whether a list ends with an element after which its transaction appended another one. */
function isIntermediate (
  reader: Transaction,
  key: Key,
  list: readonly number[],
  { writerOf }: Versions
): boolean {
  const last = list.at(-1)
  const writer = last === undefined ? undefined : writerOf(key, last)
  if (writer === undefined || writer === reader) return false
  return appendsOf(writer).findLast(([, written]) => written === key)?.[2] !== last
}

/**
 * Whether a list ends with what its own transaction appended before the read, and has nothing else
 * of it. No other transaction can append after that, because the row is locked.
 */
function showsOwnAppends (
  reader: Transaction,
  key: Key,
  list: readonly number[],
  at: number
): boolean {
  const elementsIn = (operations: Transaction['value']): readonly number[] =>
    operations.flatMap(([name, written, element]) =>
      name === 'append' && written === key ? [element] : []
    )
  const before = elementsIn(reader.value.slice(0, at))
  const after = elementsIn(reader.value.slice(at))
  return !after.some(element => list.includes(element)) &&
    before.every((element, i) => element === list[list.length - before.length + i])
}

/**
 * Finds elements of committed transactions that a later read of the list does not have, nor any
 * other read. Without an answer, a transaction counts as committed once another one has observed a
 * part of it: the rest must then be visible, too.
 */
function findLostAppends (
  transactions: readonly Transaction[],
  { orders, writerOf, committed }: Versions
): readonly Anomaly[] {
  const knownSince = new Map<Transaction, number>()
  const lastRead = new Map<Key, number>()
  const learn = (transaction: Transaction | undefined, since: number): void => {
    if (transaction === undefined) return
    knownSince.set(transaction, Math.min(knownSince.get(transaction) ?? Infinity, since))
  }
  for (const transaction of transactions) {
    learn(transaction, transaction.completed)
    for (const { key, list } of readsOf(transaction)) {
      lastRead.set(key, Math.max(lastRead.get(key) ?? -1, transaction.invoked))
      for (const element of list) learn(writerOf(key, element), transaction.completed)
    }
  }
  return [...committed].flatMap(transaction =>
    appendsOf(transaction).flatMap(([, key, element]) => {
      const isLost = (lastRead.get(key) ?? -1) > (knownSince.get(transaction) ?? Infinity) &&
        orders.get(key)?.includes(element) === false
      return isLost
        ? [{ type: 'lost-append', text: `${describe(transaction)}: no read shows ${element}` }]
        : []
    })
  )
}

/** Finds transactions that appended to the same version of a list which they had read before. */
function findLostUpdates (transactions: readonly Transaction[]): readonly Anomaly[] {
  const updates = transactions.flatMap(transaction => {
    const first = new Map<Key, number>()
    for (const { key, at } of readsOf(transaction)) if (!first.has(key)) first.set(key, at)
    return [...first].flatMap(([key, at]) => {
      const append = transaction.value.findIndex(([name, written]) =>
        name === 'append' && written === key
      )
      return append > at
        ? [{ transaction, version: `${key} [${(transaction.value[at]?.[2] as number[]).join()}]` }]
        : []
    })
  })
  return [...Map.groupBy(updates, ({ version }) => version).values()].flatMap(group =>
    group.length < 2
      ? []
      : [{
          type: 'lost-update',
          text: group.map(({ transaction }) => describe(transaction)).join('; ')
        }]
  )
}

/** Returns the transaction as text, for example `T17 ok: append x 1, r x [1,2]`. */
export function describe ({ outcome, invoked, value }: Transaction): string {
  const operations = value.map(([name, key, what]) =>
    `${name} ${key} ${typeof what === 'number' ? what : JSON.stringify(what)}`
  )
  return `T${invoked} ${outcome}: ${operations.join(', ')}`
}
