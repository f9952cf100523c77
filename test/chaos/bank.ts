/**
 * A small bank: accounts, a ledger of two sides, and the batches that move money between them.
 *
 * In charge of: batches whose every effect can be found again by their number, so that twice, half
 * and never show themselves. Refuses to: send them. Numbers have no unique index: it would turn a
 * batch that is applied twice into an error, and hide it.
 */
import { ROLE } from './own-server.ts'

export const ACCOUNTS = 200
export const BALANCE = 1_000_000

/**
 * `entries` is written in the middle of a batch and `closings` at its end; `probe` and `long_pause`
 * are for a lock that is held.
 */
export const schema = `
  create table accounts (id int primary key, balance bigint not null) with (fillfactor = 50);
  create table entries (n bigint generated always as identity primary key, batch int not null,
    debit int not null, credit int not null, amount int not null);
  create table closings (batch int not null, legs int not null, entry bigint not null);
  create table probe (id int primary key, touched int not null);
  create view long_pause as select pg_sleep(10)::text as slept;
  insert into accounts select id, ${BALANCE} from generate_series(1, ${ACCOUNTS}) as id;
  insert into probe values (1, 0);
  grant all on all tables in schema public to ${ROLE};`

/** Transfers in one batch, and its share of all batches. */
const sizes = [{ legs: 1, upTo: 0.8 }, { legs: 3, upTo: 0.95 }, { legs: 8, upTo: 1 }] as const

interface Leg {
  readonly debit: number
  readonly credit: number
  readonly amount: number
}

/**
 * The batch of this number. Accounts are locked in their order, for a deadlock costs its timeout
 * and is no subject here.
 */
export function makeTransfer (batch: number, random: () => number): object[] {
  const dice = random()
  const legs = Array.from(
    { length: sizes.find(({ upTo }) => dice < upTo)?.legs ?? 1 },
    () => makeLeg(random)
  )
  const ids = [...new Set(legs.flatMap(({ debit, credit }) => [debit, credit]))].sort((a, b) =>
    a - b
  )
  const change = (id: number): number =>
    legs.reduce(
      (sum, { debit, credit, amount }) =>
        sum + (credit === id ? amount : 0) - (debit === id ? amount : 0),
      0
    )
  return [
    ...ids.map(id => ({
      id: `a${id}`,
      op: 'update',
      table: 'accounts',
      set: { balance: { $inc: change(id) } },
      where: { id: { eq: id } }
    })),
    {
      id: 'entries',
      op: 'insert',
      table: 'entries',
      values: legs.map(({ debit, credit, amount }) => ({
        batch,
        debit: `$a${debit}.0.id`,
        credit: `$a${credit}.id`,
        amount
      }))
    },
    {
      id: 'seen',
      op: 'select',
      table: 'accounts',
      where: { id: { in: ids } },
      order: [{ id: 'asc' }]
    },
    ...legs.slice(1).map((leg, i) => ({
      id: `s${i}`,
      op: 'select',
      table: 'accounts',
      columns: ['id'],
      where: { id: { eq: leg.credit } }
    })),
    {
      id: 'closing',
      op: 'insert',
      table: 'closings',
      values: [{ batch, legs: legs.length, entry: '$entries.0.n' }]
    }
  ]
}

function makeLeg (random: () => number): Leg {
  const debit = 1 + Math.floor(random() * ACCOUNTS)
  const credit = 1 + (debit + Math.floor(random() * (ACCOUNTS - 1))) % ACCOUNTS
  return { debit, credit, amount: 1 + Math.floor(random() * 100) }
}

/** Whether the answer of a batch holds what it has written, and not what another one has. */
export function isAnswerOf (batch: number, text: string): boolean {
  const numbers = [...text.matchAll(/"batch":(\d+)/g)].map(([, number]) => Number(number))
  return numbers.length >= 2 && numbers.every(number => number === batch)
}
