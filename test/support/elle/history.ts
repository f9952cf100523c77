/**
 * Histories of transactions over lists, in the form of Elle (https://github.com/jepsen-io/elle).
 * A transaction appends elements to lists and reads lists. A history records its start and its end
 * as its client saw them.
 */

export type Key = number | string
export type Append = readonly ['append', Key, number]
/** The list is null as long as the result is not known. */
export type Read = readonly ['r', Key, readonly number[] | null]
export type MicroOperation = Append | Read

/** `info`: the client does not know whether the transaction was committed. */
export type Outcome = 'ok' | 'fail' | 'info'

export interface HistoryEvent {
  readonly type: 'invoke' | Outcome
  /** A client, which runs one transaction at a time. After `info` it gets a new number. */
  readonly process: number
  readonly value: readonly MicroOperation[]
  /** Milliseconds. */
  readonly time: number
}

export interface Transaction {
  readonly outcome: Outcome
  /** Positions of its events in the history. `completed` is Infinity if the outcome is unknown. */
  readonly invoked: number
  readonly completed: number
  /** With the results of the reads only if the outcome is `ok`. */
  readonly value: readonly MicroOperation[]
}

/** Returns the transactions of a history. Without an end, the outcome is `info`. */
export function readTransactions (history: readonly HistoryEvent[]): readonly Transaction[] {
  const open = new Map<number, Transaction>()
  const transactions: Transaction[] = []
  for (const [index, { type, process, value }] of history.entries()) {
    const started = open.get(process)
    if ((type === 'invoke') === (started !== undefined)) {
      throw new Error(`event ${index}: unexpected ${type} of process ${process}`)
    }
    if (started === undefined) {
      open.set(process, { outcome: 'info', invoked: index, completed: Infinity, value })
    } else {
      open.delete(process)
      const completed = type === 'info' ? Infinity : index
      transactions.push({ ...started, outcome: type as Outcome, completed, value })
    }
  }
  return [...transactions, ...open.values()]
}

export const appendsOf = ({ value }: Transaction): readonly Append[] =>
  value.filter(operation => operation[0] === 'append')

/** Returns the reads of a committed transaction with their results, otherwise none. */
export const readsOf = (
  { outcome, value }: Transaction
): ReadonlyArray<{ readonly key: Key, readonly list: readonly number[], readonly at: number }> =>
  outcome !== 'ok'
    ? []
    : value.flatMap(([name, key, list], at) => name === 'r' ? [{ key, list: list ?? [], at }] : [])

/**
 * Renders the history as the JSON that elle-cli reads (https://github.com/ligurio/elle-cli): an
 * array with one event a line. Times are nanoseconds.
 */
export function toElleJson (history: readonly HistoryEvent[]): string {
  const lines = history.map(({ type, process, value, time }, index) =>
    JSON.stringify({ index, type, process, f: 'txn', value, time: Math.round(time * 1e6) })
  )
  return `[${lines.join(',\n')}]\n`
}
