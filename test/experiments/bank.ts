/**
 * A small bank: accounts, a double-entry ledger, and batches that transfer money. Each effect of a
 * batch carries the number of the batch, so the audit detects partial, repeated and missing
 * batches. The numbers have no unique index: it would turn a batch that is applied twice into an
 * error.
 */
import * as op from '../support/operations.ts'

export const ACCOUNTS = 200
export const BALANCE = 1_000_000

/**
 * A batch writes `entries` in its middle and `closings` at its end. `probe` and `long_pause` serve
 * the measurement of a held lock.
 */
export const schema = `
  create table accounts (id int primary key, balance bigint not null) with (fillfactor = 50);
  create table entries (n bigint generated always as identity primary key, batch int not null,
    debit int not null, credit int not null, amount int not null);
  create table closings (batch int not null, transfers int not null, entry bigint not null);
  create table probe (id int primary key, touched int not null);
  create view long_pause as select pg_sleep(10)::text as slept;
  insert into accounts select id, ${BALANCE} from generate_series(1, ${ACCOUNTS}) as id;
  insert into probe values (1, 0);`

/** The number of transfers in a batch, and the cumulative share of batches with that number. */
const sizes = [
  { transfers: 1, upTo: 0.8 },
  { transfers: 3, upTo: 0.95 },
  { transfers: 8, upTo: 1 }
] as const

interface Transfer {
  readonly debit: number
  readonly credit: number
  readonly amount: number
}

/**
 * Returns the batch with this number. It updates accounts in the order of their ids, which avoids
 * deadlocks and their timeouts.
 */
export function makeBatch (batch: number, random: () => number): object[] {
  const dice = random()
  const transfers = Array.from(
    { length: sizes.find(({ upTo }) => dice < upTo)?.transfers ?? 1 },
    () => randomTransfer(random)
  )
  const accounts = new Set(transfers.flatMap(({ debit, credit }) => [debit, credit]))
  const ids = [...accounts].sort((a, b) => a - b)
  const change = (id: number): number =>
    transfers.reduce(
      (sum, { debit, credit, amount }) =>
        sum + (credit === id ? amount : 0) - (debit === id ? amount : 0),
      0
    )
  return [
    ...ids.map(id => op.update(`a${id}`, 'accounts', {
      set: { balance: { $inc: change(id) } }, where: { id: { eq: id } }
    })),
    op.insert('entries', 'entries', transfers.map(({ debit, credit, amount }) => ({
      batch,
      debit: `$a${debit}.0.id`,
      credit: `$a${credit}.id`,
      amount
    }))),
    op.select('seen', 'accounts', { where: { id: { in: ids } }, order: [{ id: 'asc' }] }),
    ...transfers.slice(1).map((transfer, i) => op.select(`s${i}`, 'accounts', {
      columns: ['id'], where: { id: { eq: transfer.credit } }
    })),
    op.insert('closing', 'closings', [
      { batch, transfers: transfers.length, entry: '$entries.0.n' }
    ])
  ]
}

function randomTransfer (random: () => number): Transfer {
  const debit = 1 + Math.floor(random() * ACCOUNTS)
  const credit = 1 + (debit + Math.floor(random() * (ACCOUNTS - 1))) % ACCOUNTS
  return { debit, credit, amount: 1 + Math.floor(random() * 100) }
}

/** True if the response contains rows of this batch and of no other. */
export function isResponseOf (batch: number, text: string): boolean {
  const numbers = [...text.matchAll(/"batch":(\d+)/g)].map(([, number]) => Number(number))
  return numbers.length >= 2 && numbers.every(number => number === batch)
}
