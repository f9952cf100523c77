/**
 * The work that is compared: bodies with new values in the format of each contender, the part of
 * the response that must be the same, and the rows that a batch adds to the database.
 */
import { randomUUID } from 'node:crypto'
import type { Random } from './words/word.ts'
import {
  gistOfRows,
  hasProof,
  lastRows,
  mapWords,
  traceQuery,
  tracesOf,
  words,
  type WordName
} from './words/words.ts'

/**
 * `invoice`: one hot row, 4 operations with references. `order`: 5 operations, no contention.
 * `order with ids`: the same with ids chosen by the client. Words: one or two operations each.
 */
export type Work = 'invoice' | 'order' | 'order with ids' | WordName
/** The request format of a contender. `named`: the parameters of a batch in bench/batches/. */
export type Dialect = 'oneflight' | 'named' | 'endpoint' | 'graphql'

/** The messages to and from bench/load.ts. */
export interface LoadOrder {
  readonly url: string
  readonly dialect: Dialect
  readonly work: Work
  readonly connections: number
  readonly requests: number
  readonly tokens: readonly string[]
  /** Whether each request has a new Idempotency-Key. */
  readonly keyed: boolean
}

export interface LoadResult {
  /** Responses with status 200 that report success. */
  readonly succeeded: number
  /** Other responses, connection errors and timeouts. */
  readonly failed: number
  /** The first response that failed, if any. */
  readonly firstError?: string | undefined
  /** From the first request to the last response. */
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
}

const items = [{ sku: 'apple', qty: 4, price: 0.3 }, { sku: 'pear', qty: 1, price: 0.45 }, {
  sku: 'quince',
  qty: 2,
  price: 1.2
}] as const
const invoice = { note: 'Corner Shop', article: 'apple', qty: 4 } as const
const name = 'Corner Shop'

/** Creates a body for a caller: the owner of some rows, by its place among the tokens. */
type MakeBody = (caller: number, random: Random) => unknown

/** The values of the words, which are the whole body where the operations are known. */
const values = mapWords(({ make }): MakeBody => make)

const bodies: Readonly<Record<Dialect, Partial<Record<Work, MakeBody>>>> = {
  oneflight: {
    invoice: () => [
      {
        id: 'counter',
        op: 'update',
        table: 'counters',
        set: { n: { $inc: 1 } },
        where: { id: { eq: 1 } }
      },
      {
        id: 'invoice',
        op: 'insert',
        table: 'invoices',
        values: [{ number: '$counter.0.n', note: invoice.note }]
      },
      {
        id: 'line',
        op: 'insert',
        table: 'invoice_lines',
        values: [{ invoice_id: '$invoice.0.id', article: invoice.article, qty: invoice.qty }]
      },
      { id: 'made', op: 'select', table: 'invoices', where: { id: { eq: '$invoice.0.id' } } }
    ],
    order: () => [
      { id: 'customer', op: 'insert', table: 'customers', values: [{ name }] },
      ...orderOf({ customer: '$customer.0.id', order: '$order.0.id' })
    ],
    'order with ids': () => {
      const [customer, order] = [randomUUID(), randomUUID()]
      const [made, ...rest] = orderOf({ customer, order })
      return [
        { id: 'customer', op: 'insert', table: 'customers', values: [{ id: customer, name }] },
        { ...made, values: [{ id: order, customer_id: customer }] },
        ...rest
      ]
    },
    ...mapWords(({ make, operations }): MakeBody => (...owner) => operations(make(...owner)))
  },
  named: {
    order: () => ({ name, items }),
    ...values
  },
  endpoint: {
    invoice: () => invoice,
    order: () => ({ name, items }),
    ...values
  },
  graphql: {
    'order with ids': () => {
      const [customer, order] = [randomUUID(), randomUUID()]
      // Decimals are strings in the GraphQL of PostGraphile.
      const lines = items.map(({ price, ...item }, i) =>
        [`item${i}`, { ...item, orderId: order, price: String(price) }] as const
      )
      return {
        query: mutation,
        variables: {
          customer: { rowId: customer, name },
          order: { rowId: order, customerId: customer },
          id: order,
          ...Object.fromEntries(lines)
        }
      }
    }
  }
}

/** The four operations after that of the customer. */
function orderOf (
  { customer, order }: { readonly customer: string, readonly order: string }
): readonly object[] {
  return [
    { id: 'order', op: 'insert', table: 'orders', values: [{ customer_id: customer }] },
    {
      id: 'items',
      op: 'insert',
      table: 'order_items',
      values: items.map(item => ({ order_id: order, ...item }))
    },
    {
      id: 'paid',
      op: 'update',
      table: 'orders',
      set: { status: 'paid' },
      where: { id: { eq: order } }
    },
    { id: 'left', op: 'select', table: 'order_items', where: { order_id: { eq: order } } }
  ]
}

/**
 * PostGraphile inserts one row per mutation, so three lines are three mutations. The last one
 * returns them, which corresponds to the select.
 */
const mutation = `mutation Order(
  $customer: CustomerInput!, $order: OrderInput!, $id: UUID!,
  $item0: OrderItemInput!, $item1: OrderItemInput!, $item2: OrderItemInput!
) {
  createCustomer(input: { customer: $customer }) { customer { rowId } }
  createOrder(input: { order: $order }) { order { rowId } }
  item0: createOrderItem(input: { orderItem: $item0 }) { orderItem { sku } }
  item1: createOrderItem(input: { orderItem: $item1 }) { orderItem { sku } }
  item2: createOrderItem(input: { orderItem: $item2 }) { orderItem { sku } }
  updateOrderByRowId(input: { rowId: $id, orderPatch: { status: "paid" } }) {
    order { orderItemsByOrderId { nodes { orderId sku qty price } } }
  }
}`

/** Creates a body with new values, as JSON text. Throws if the dialect does not have the work. */
export function makeBody (
  dialect: Dialect,
  work: Work,
  { caller = 0, random = Math.random }: {
    readonly caller?: number,
    readonly random?: Random
  } = {}
): string {
  const make = bodies[dialect][work]
  if (make === undefined) throw new Error(`${dialect} does not have the work ${work}`)
  return JSON.stringify(make(caller, random))
}

/**
 * Whether a response with status 200 reports success. GraphQL reports errors only in the body. A
 * read leaves no trace, so its response must have the rows.
 */
export function succeeded (dialect: Dialect, work: Work, body: string): boolean {
  return (dialect !== 'graphql' || !body.includes('"errors"')) &&
    (!isWord(work) || hasProof(words[work], body))
}

export function isWord (work: string): work is WordName {
  return work in words
}

/**
 * Returns the part of a response that must be the same for all contenders: numbers as numbers,
 * without ids, times and the contender's own format.
 */
export function gist (dialect: Dialect, work: Work, answer: unknown): unknown {
  const at = (...path: readonly (string | number)[]): any =>
    path.reduce<any>((value, step) => value?.[step], answer)
  if (isWord(work)) {
    return gistOfRows(words[work], dialect === 'endpoint' ? answer as any : lastRows(at('data')))
  }
  if (work === 'invoice') {
    const made = dialect === 'oneflight' ? at('data', 'made', 0) : answer as any
    return { note: made?.note, owner: made?.owner, numbered: Number(made?.number) > 0 }
  }
  const lines = dialect === 'oneflight' || dialect === 'named'
    ? at('data', 'left')
    : dialect === 'endpoint'
      ? at('items')
      : at('data', 'updateOrderByRowId', 'order', 'orderItemsByOrderId', 'nodes')
  return lines?.map((line: Record<string, unknown>) => ({
    sku: line['sku'],
    qty: Number(line['qty']),
    price: Number(line['price'])
  }))
}

/** The rows that a batch adds, by table. `traceQueries` count them. */
export const traces: Readonly<Record<Work, Readonly<Record<string, number>>>> = {
  invoice: { counted: 1, invoices: 1, lines: 1 },
  order: { customers: 1, 'orders paid': 1, items: 3, 'items of the right articles': 3 },
  'order with ids': { customers: 1, 'orders paid': 1, items: 3, 'items of the right articles': 3 },
  ...mapWords(tracesOf)
}

const invoiceTraces =
  'select (select n from counters) as counted, (select count(*) from invoices) as ' +
  'invoices, (select count(*) from invoice_lines) as lines'

const orderTraces =
  `select (select count(*) from customers) as customers, (select count(*) from orders
    where status = 'paid') as "orders paid",
  (select count(*) from order_items) as items, (select count(*) from order_items where (sku, qty,
    price) in (('apple', 4, 0.30), ('pear', 1, 0.45), ('quince', 2, 1.20)))
    as "items of the right articles"`

export const traceQueries: Readonly<Record<Work, string>> = {
  invoice: invoiceTraces,
  order: orderTraces,
  'order with ids': orderTraces,
  ...mapWords(() => traceQuery)
}

/** What removes the rows of earlier slices, if they would fill the tables. */
export function clearQuery (work: Work): string | undefined {
  return isWord(work) && words[work].adds !== undefined ? 'call clear_added()' : undefined
}
