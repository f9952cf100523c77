/**
 * Tests the types of the client: result types for each form of database type, accepted input and
 * rejected input. `npm run check` (tsc) checks the functions below; it reports an
 * `@ts-expect-error` above a line that compiles. The test suite checks compiler messages and the
 * cost of compiling.
 */
import t from 'tap'
import type { AnyOperators } from '../../../client/src/filter.ts'
import {
  createClient,
  $,
  type AnyDatabase,
  type Batch,
  type BatchResult,
  type Client,
  type ColumnType,
  type Generated,
  type Json,
  type QueryPlan,
  type Reference,
  type ServiceErrorCode,
  type ErrorType,
  type Where
} from '../../../client/src/index.ts'
import type { OnConflict, SelectOptions } from '../../../client/src/operation.ts'
import type { OperatorName } from '../../../client/src/words.ts'
import type { ErrorType as ServiceErrorType } from '../../../schemas/error.ts'
import type {
  Insert,
  LockMode,
  OnConflict as OnConflictSchema,
  Select
} from '../../../schemas/operation.ts'
import type { FailureCode } from '../../../src/errors/catalogue.ts'
import { compile } from '../../support/compile.ts'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true
  : false
/** Compiles if both types are identical, including modifiers. */
function same<A, B> (..._: Equal<A, B> extends true ? [true] : [never, A]): void {}
/** Compiles if the value has exactly the type `Expected`. */
function exactly<Expected> () {
  return {
    of<Actual> (
      _: Actual,
      ..._wrong: Equal<Actual, Expected> extends true ? [] : [never, Actual]
    ): void {}
  }
}
type KeysOf<T> = T extends unknown ? keyof T : never

interface OrderUpdate {
  id?: number
  customer_id?: number
  status?: 'open' | 'paid'
  total?: number
  tags?: string[]
  data?: Json
  placed?: string | null
  gift?: boolean | null
  during?: unknown
}

/** Has the form that `supabase gen types typescript` generates. */
interface Supabase {
  __InternalSupabase: { PostgrestVersion: '13.0.5' }
  public: {
    Tables: {
      customers: {
        Row: { id: number, name: string, email: string | null },
        Insert: { id?: never, name: string, email?: string | null },
        Update: { id?: never, name?: string, email?: string | null },
        Relationships: []
      },
      orders: {
        Row: {
          id: number,
          customer_id: number,
          status: 'open' | 'paid',
          total: number,
          tags: string[],
          data: Json,
          placed: string | null,
          gift: boolean | null,
          during: unknown
        },
        Insert: OrderUpdate & { customer_id: number },
        Update: OrderUpdate,
        Relationships: []
      }
    },
    Views: {
      order_totals: {
        Row: { customer_id: number | null, total: number | null },
        Relationships: []
      },
      open_orders: {
        Row: { id: number | null },
        Insert: { id?: number | null },
        Update: { id?: number | null },
        Relationships: []
      }
    },
    Functions: {
      price_of: { Args: { sku: string, qty?: number }, Returns: number },
      late_orders: { Args: { days: number }, Returns: Array<{ id: number, late: boolean | null }> }
    },
    Enums: { status: 'open' | 'paid' },
    CompositeTypes: { [_ in never]: never }
  }
  billing: {
    Tables: { invoices: { Row: { id: number }, Insert: { id?: number }, Update: { id?: number } } },
    Views: { [_ in never]: never }
  }
}

type Customer = Supabase['public']['Tables']['customers']['Row']

// Has the form that kysely-codegen generates. Kysely's ColumnType has the same shape.
type Int8 = ColumnType<string, bigint | number | string, bigint | number | string>
type Numeric = ColumnType<string, number | string, number | string>
type Timestamp = ColumnType<Date, Date | string, Date | string>
type Interval = ColumnType<{ toPostgres: () => string }, string, string>
type Document = ColumnType<{ note: string }, string, string>
interface KyselyDatabase {
  customers: {
    id: Generated<Int8>,
    name: string,
    email: string | null,
    since: Generated<Timestamp>,
    seen: Timestamp | null
  }
  orders: {
    id: ColumnType<string, never, never>,
    customer_id: Int8,
    qty: number,
    total: Generated<Numeric>,
    sums: ColumnType<string[], Array<number | string>, Array<number | string>>,
    data: Document,
    lasts: Interval,
    json: Json | null
  }
  'billing.invoices': { id: Generated<number> }
}

declare const supabase: Client<Supabase>
declare const kysely: Client<KyselyDatabase>
declare const exact: Client<KyselyDatabase, 'public', 'bigint'>
declare const plain: Client<{ stock: { sku: string, qty: number, id: bigint } }>
declare const untyped: Client<AnyDatabase>

/** Never called: the following functions are only compiled. */
export async function results (): Promise<void> {
  const { data } = await supabase.batch(b => ({
    customer: b.insert('customers', { name: 'Corner Shop' }, { expect: 1 }),
    some: b.insert(
      'customers', [{ name: 'a' }, { name: 'b', email: null }], { expect: { min: 1 } }
    ),
    none: b.delete('customers', { where: { id: { eq: 1 } }, expect: 0 }),
    quiet: b.update('orders', { set: { total: 1 }, all: true, returning: [] }),
    part: b.update('orders', {
      set: { total: 1 },
      all: true,
      returning: ['id', { column: 'total', as: 'amount' }, { column: 'status' }]
    }),
    paths: b.select('orders', {
      columns: ['data->>note', 'data->items', 'data->items->0', 'data->0', 'data->a->>0', {
        column: 'data->x', as: 'y'
      }]
    }),
    groups: b.select('orders', {
      columns: [
        'status',
        { fn: 'count' },
        { fn: 'sum', column: 'total', as: 'worth' },
        { fn: 'min', column: 'placed' },
        { fn: 'max', column: 'data->x', as: 'most' },
        { fn: 'avg', column: 'during' },
        { fn: 'count', column: 'customer_id', distinct: true, as: 'customers' }
      ],
      distinct: true,
      having: { worth: { gt: 10 }, status: { in: ['open'] }, customers: { gte: 2 } },
      group_by: ['status'],
      order: [{ worth: { direction: 'desc', nulls: 'last' } }, { status: 'asc' }]
    }),
    counted: b.select('customers', { answer: 'count' }),
    page: b.select('customers', {
      order: [{ name: 'desc' }, { id: 'asc' }], after: [null, b.select('customers').row().id]
    }),
    casts: b.select('orders', {
      columns: [
        { column: 'tags->>0', as: 'tag' },
        { column: 'data->>n', cast: 'int', as: 'n' },
        { column: 'total', cast: 'text' },
        { fn: 'sum', column: 'data->>n', cast: 'numeric' }
      ]
    }),
    saved: b.insert('customers', { name: 'x' }, {
      on_conflict: { columns: ['id'], do: 'update' },
      returning: ['*', { fn: 'inserted' }, { fn: 'inserted', as: 'created' }]
    }),
    all: b.select('customers', { columns: ['*', { column: 'id', as: 'number' }] }),
    view: b.select('order_totals'),
    invoices: b.select('billing.invoices')
  }))
  exactly<{
    customer: [Customer],
    some: [Customer, ...Customer[]],
    none: [],
    quiet: [],
    part: Array<{ id: number, amount: number, status: 'open' | 'paid' }>,
    paths: Array<{ note: string | null, items: Json, data: Json, a: string | null, y: Json }>,
    groups: Array<{
      status: 'open' | 'paid',
      count: number,
      worth: number | null,
      min: string | null,
      most: Json,
      avg: unknown,
      customers: number
    }>,
    counted: number,
    page: Customer[],
    casts: Array<{
      tag: string | null,
      n: number | null,
      total: string | null,
      sum: number | null
    }>,
    saved: Array<{
      id: number, name: string, email: string | null, inserted: boolean, created: boolean
    }>,
    all: Array<{ id: number, name: string, email: string | null, number: number }>,
    view: Array<{ customer_id: number | null, total: number | null }>,
    invoices: Array<{ id: number }>
  }>().of(data)

  // Other shapes of batches, and options that change the result type.
  const one = await supabase.batch(b => b.select('customers', { columns: ['id'] }))
  exactly<BatchResult<Array<{ id: number }>>>().of(one)
  const nested = await supabase.batch(b => {
    const id = (table: 'customers' | 'open_orders') =>
      b.select(table, { columns: ['id'], expect: 1 })
    return {
      one: b.select('billing.invoices').as('invoices'),
      deep: { ids: [id('customers'), [b.delete('customers', { all: true, returning: [] })]] },
      many: [1, 2].map(() => ({ paid: b.select('billing.invoices', { expect: 0 }) }))
    }
  }, { readOnly: true })
  exactly<{
    one: Array<{ id: number }>,
    deep: { ids: [[{ id: number | null }], [[]]] },
    many: Array<{ paid: [] }>
  }>().of(nested.data)
  const nothing = await supabase.batch(b => {
    b.insert('customers', { name: 'a' })
  })
  exactly<undefined>().of(nothing.data)
  const skippable = (b: Batch<Supabase>) => {
    const found = b.select('customers', { columns: ['id'], expect: { max: 1 } })
    const made = b.insert('customers', { name: 'a' }, {
      returning: ['id'], expect: 1, when: [[found, 0]]
    })
    b.update('orders', { set: { customer_id: made.row().id }, all: true, when: [[made, 1]] })
    const gone = b.delete('customers', { all: true, when: [[found, { min: 1 }], [made, 0]] })
    return { found, made, gone }
  }
  const skipped = await supabase.batch(skippable)
  exactly<{
    found: Array<{ id: number }>,
    made: [{ id: number }] | null,
    gone: Customer[] | null,
  }>().of(skipped.data)
  const skippedCounts = await supabase.batch(skippable, { return: 'minimal' })
  exactly<{ found: number, made: number | null, gone: number | null }>().of(skippedCounts.data)
  const plans = await supabase.batch(b => b.select('orders'), { explain: true })
  exactly<QueryPlan[]>().of(plans.data)

  // Kysely's types describe values of a driver; JSON has numbers, but no dates.
  const typed = await kysely.batch(b => ({
    c: b.select('customers'),
    o: b.select('orders')
  }))
  exactly<{
    c: Array<{
      id: number, name: string, email: string | null, since: string, seen: string | null
    }>,
    o: Array<
      {
        id: string,
        customer_id: number,
        qty: number,
        total: number,
        sums: number[],
        data: { note: string },
        lasts: string,
        json: Json | null
      }
    >,
  }>().of(typed.data)
  const lossless = await exact.batch(b => ({
    c: b.select('customers', { columns: ['id'] }),
    o: b.select('orders'),
    n: b.select('orders', { columns: [{ fn: 'count' }, { fn: 'sum', column: 'qty' }] })
  }))
  exactly<{
    c: Array<{ id: bigint }>,
    o: Array<
      {
        id: string,
        customer_id: bigint,
        qty: bigint | string,
        total: bigint | string,
        sums: Array<number | bigint | string>,
        data: { note: string },
        lasts: string,
        json: Json | bigint | null
      }
    >,
    n: Array<{ count: bigint, sum: bigint | string | null }>
  }>().of(lossless.data)
  const own = await plain.batch(b => b.select('stock'))
  exactly<Array<{ sku: string, qty: number, id: number }>>().of(own.data)
  const unknown = await untyped.batch(b => ({
    a: b.select('anything'),
    b: b.select('anything', {
      columns: ['x', { fn: 'count' }], where: { y: { gt: 1 }, or: [{ z: { is: null } }] }
    })
  }))
  exactly<
    { a: Array<{ readonly [x: string]: unknown }>, b: Array<{ x: unknown, count: number }> }
  >().of(unknown.data)
}

export async function inputs (): Promise<void> {
  await supabase.batch(b => {
    const customer = b.insert('customers', { name: 'a' })
    same<typeof customer extends { row(): { id: infer Id } } ? Id : never, Reference<number>>(true)
    b.insert('orders', {
      customer_id: customer.row().id,
      tags: ['a', customer.row(1).name],
      data: { for: customer.row(), all: customer.rows.id, at: new Date(), big: 1n },
      during: '[1,2)'
    })
    b.insert('orders', { customer_id: 9007199254740993n, status: 'paid', tags: customer.rows.name })
    b.update('orders', {
      set: {
        total: $.inc(1n),
        status: $.col('status'),
        tags: $.append(['x']),
        data: $.merge({ a: customer.row().id }),
        placed: $.now(),
        gift: $.default(),
        customer_id: $.mul('1.5')
      },
      where: {
        status: { in: ['open', 'paid'], neq: $.any(['open']) },
        customer_id: {
          in: customer.rows.id, gt: $.all([1, customer.row().id]), between: [1, $.col('total')]
        },
        placed: {
          gte: '2026-01-01', is: 'not_null', fts: { query: 'a', config: 'english' }, ov: '[1,2)'
        },
        gift: { is: 'unknown', eq: true },
        tags: { cs: ['a'], eq: ['a'], is: null },
        data: { has_key: 'a', eq: { a: 1 }, cs: [customer.row().id], neq: $.value('text') },
        during: { adj: '[1,2)', eq: 1 },
        'data->a->>b': { like: 'x%' },
        not: { id: { lt: 5 } },
        and: [{ id: { not: { eq: 7 } } }]
      }
    })
    b.update('orders', {
      key: ['id'],
      values: [
        { id: customer.row().id, total: $.dec(1), tags: $.append(['a']), status: 'paid' },
        { id: 5, placed: $.now(), data: { a: 1 } }
      ],
      where: { gift: { eq: true } },
      expect: { min: 1 }
    })
    b.update('orders', {
      key: ['status', { column: 'total', as: 'before' }],
      values: [{ before: 1, total: 2, status: 'open' }]
    })
    b.update('orders', {
      set: { data: $.remove('a') },
      where: {
        'data->>b': { ilike: 'x%', imatch: 'x', isdistinct: 'y' },
        'data->>c': { plfts: 'a', phfts: 'b', wfts: 'c' },
        data: { has_keys_any: ['a'], has_keys_all: ['b'] },
        during: { cd: '[1,9)', sl: '[1,2)', sr: '[1,2)', nxr: '[1,2)', nxl: '[1,2)' }
      }
    })
    b.insert('orders', { customer_id: 1 }, {
      on_conflict: {
        columns: ['customer_id'], index_where: { status: { eq: 'open' } }, do: 'update'
      }
    })
    b.select('orders', { order: [{ id: 'asc' }], limit: 2, offset: 1 })
    const now = new Date()
    b.update('orders', {
      set: { placed: now },
      where: {
        placed: { gte: now, in: [now, 'today'], not: { eq: now } },
        'data->>at': { lt: now }
      }
    })
    // @ts-expect-error a date cannot match a pattern
    b.select('orders', { where: { placed: { like: now } } })
    // @ts-expect-error a column of another type
    b.select('orders', { where: { total: { eq: now } } })

    const top = b.select('orders', {
      columns: [{ fn: 'max', column: 'total', as: 'most' }, { fn: 'min', column: 'placed' }]
    })
    exactly<Reference<number>>().of($.notNull(top.row().most))
    b.insert('orders', { customer_id: 1, total: $.notNull(top.row().most) })
    b.update('orders', { set: { tags: $.notNull(top.rows.min) }, all: true })
    // @ts-expect-error a value that is not a reference
    $.notNull(5)

    const found = b.select('customers', { where: { name: { eq: 'a' } } })
    const id = $.first(found.row().id, customer.row().id)
    same<typeof id, Reference<number>>(true)
    b.insert('orders', { customer_id: id, data: { of: id }, tags: [$.first(found.row().name)] })
    b.update('orders', { set: { total: $.inc(id) }, where: { id: { eq: id, in: [1, id] } } })
    exactly<Reference<string | null>>().of($.first(found.row().email, customer.row().email))
    // @ts-expect-error a value that is not a reference
    $.first(found.row().id, 5)
    // @ts-expect-error no reference
    $.first()

    // @ts-expect-error a reference to a column that can be NULL
    b.insert('customers', { name: customer.row().email })
    const named = b.insert('customers', { name: 'a' }, { returning: ['name'] })
    // @ts-expect-error a column that is not returned
    b.insert('orders', { customer_id: named.row().id })
    // @ts-expect-error an unknown column
    b.insert('customers', { name: 'a', nam: 'b' })
    // @ts-expect-error a column that cannot be written
    b.insert('customers', { id: 1, name: 'a' })
    // @ts-expect-error a view that is not insertable
    b.insert('order_totals', { total: 1 })
    // @ts-expect-error both set and key
    b.update('customers', { key: ['id'], set: { name: 'a' }, values: [{ id: 1, name: 'a' }] })
    // @ts-expect-error a key that is no column
    b.update('customers', { key: ['idd'], values: [{ id: 1, name: 'a' }] })
    // @ts-expect-error both where and all
    b.delete('customers', { where: { id: { eq: 1 } }, all: true })
    // @ts-expect-error null does not equal anything
    b.delete('customers', { where: { email: { eq: null } } })
    // @ts-expect-error a value that is not in the enum
    b.select('orders', { where: { status: { eq: 'shut' } } })
    // @ts-expect-error a text cannot be multiplied
    b.update('customers', { set: { name: $.mul(2) }, all: true })
    // @ts-expect-error a modifier in values of a JSON column
    b.insert('orders', { customer_id: 1, data: $.merge({ a: 1 }) })
    // @ts-expect-error a modifier inside of JSON
    b.update('orders', { set: { data: { at: $.now() } }, all: true })
    // @ts-expect-error $.excluded is valid only in on_conflict
    b.update('orders', { set: { total: $.excluded('total') }, all: true })
    // @ts-expect-error a bare string would be parsed as JSON text
    b.select('orders', { where: { data: { eq: 'text' } } })
    // @ts-expect-error a comparison with an unknown column
    b.select('orders', { where: { total: { lt: $.col('totl') } } })
    // @ts-expect-error an order by an unknown column or alias
    b.select('orders', { columns: [{ fn: 'count', as: 'n' }], order: [{ m: 'asc' }] })
    // @ts-expect-error an unknown cast
    b.select('orders', { columns: [{ column: 'total', cast: 'integer' }] })
    // @ts-expect-error only an insert tells which rows are new
    b.update('customers', { set: { name: 'x' }, all: true, returning: [{ fn: 'inserted' }] })
    // @ts-expect-error not a column of the output
    b.select('orders', { columns: [{ fn: 'count', as: 'n' }], having: { id: { eq: 1 } } })
    // @ts-expect-error functions other than count need a column
    b.select('orders', { columns: [{ fn: 'sum' }] })
    // @ts-expect-error a condition on a reference, and not on an operation
    b.select('orders', { when: [[named.row(), 1]] })
    // @ts-expect-error a path into a column that is not jsonb
    b.select('orders', { columns: ['total->a'] })
    b.insert('customers', { name: 'a' }, {
      // @ts-expect-error both columns and constraint
      on_conflict: { columns: ['id'], constraint: 'x', do: 'nothing' }
    })
    b.insert('customers', { name: 'a' }, {
      // @ts-expect-error set with do: 'nothing'
      on_conflict: { columns: ['id'], do: 'nothing', set: { name: 'b' } }
    })
    return {}
  })
  await kysely.batch(b => {
    b.insert('customers', { name: 'a', since: new Date(), id: '9007199254740993', seen: null })
    b.insert('orders', {
      customer_id: b.select('customers').row().id,
      qty: 1,
      sums: [1, '2'],
      data: { note: 'a' },
      lasts: '1 day'
    })
    const seen = b.select('customers', { where: { since: { lt: new Date() } } }).row().since
    b.update('customers', {
      set: { since: seen, seen: '2026-01-01' }, where: { seen: { eq: seen } }
    })
    // @ts-expect-error a column that is GENERATED ALWAYS
    b.update('orders', { set: { id: 'a' }, all: true })
    // @ts-expect-error serialized JSON; the client serializes values itself
    b.update('orders', { set: { data: '{"note": "a"}' }, all: true })
  })
  await exact.batch(b => b.update('orders', {
    set: { qty: '5', total: 5n }, where: { qty: { gt: '4' }, total: { eq: 1.5 } }
  }))
  // @ts-expect-error the function of a batch must not be async
  await supabase.batch(async b => b.select('customers'))
  // @ts-expect-error a reference
  await supabase.batch(b => ({ a: { b: b.select('customers').row() } }))
}

declare function b2 (build: (b: Batch<Supabase>) => unknown): void

/** Helper functions may take a batch or a client as parameter. */
export function parts (): void {
  const take = (b: Batch<Supabase>, id: number) => b.update('orders', {
    set: { status: 'paid' }, where: { id: { eq: id } }, expect: 1, returning: ['id']
  })
  const pay = async (client: Client<Supabase>, id: number) =>
    (await client.batch(b => take(b, id))).data[0].id
  exactly<(client: Client<Supabase>, id: number) => Promise<number>>().of(pay)
  same<ReturnType<typeof createClient<Supabase, 'billing'>>, Client<Supabase, 'billing'>>(true)
  const open: Where<Supabase, 'orders'> = { status: { eq: 'open' }, or: [{ total: { gt: 5 } }] }
  b2(b => b.delete('orders', { where: { and: [open, { id: { gt: 7 } }] } }))
  const where: Where<Supabase, 'orders'> = {}
  where.total = { gte: 5 }
  where.total.lt = 10
  where['data->a'] = { eq: 1 }
  where.or = [open, { status: { eq: 'paid' } }]
  where.not = { id: { eq: 7 } }
  delete where.total
  b2(b => b.update('orders', { set: { total: 1 }, where }))
  where.exists = { table: 'customers', on: { id: 'customer_id' }, where: { name: { eq: 'a' } } }
  // @ts-expect-error an unknown table
  where.exists = { table: 'custmers', on: { id: 'customer_id' } }
  const any: Where<AnyDatabase, 'anything'> = {}
  any['x'] = { eq: 1 }
  const billing = (client: Client<Supabase, 'billing'>) => client.batch(b => b.select('invoices'))
  exactly<(client: Client<Supabase, 'billing'>) => Promise<BatchResult<Array<{ id: number }>>>>()
    .of(billing)
}

export async function nestedRows (client: Client<Supabase>): Promise<void> {
  const found = await client.batch(b => b.select('orders', {
    columns: ['id'],
    with: {
      customer: { table: 'customers', on: { id: 'customer_id' }, one: true, columns: ['name'] },
      others: {
        table: 'orders',
        on: { customer_id: 'customer_id' },
        columns: ['total'],
        order: [{ id: 'desc' }],
        with: { again: { table: 'public.customers', on: { id: 'customer_id' }, one: true } }
      }
    }
  }))
  const [row] = found.data
  exactly<number | undefined>().of(row?.id)
  exactly<string | undefined>().of(row?.customer?.name)
  exactly<number | undefined>().of(row?.others[0]?.total)
  exactly<string | null | undefined>().of(row?.others[0]?.again?.email)
  await client.batch(b => [
    // @ts-expect-error an unknown column of this table
    b.select('orders', { with: { a: { table: 'customers', on: { id: 'custmer_id' } } } }),
    b.select('orders', {
      // @ts-expect-error an unknown column of the other table
      with: { a: { table: 'customers', on: { id: 'customer_id' }, columns: ['nme'] } }
    })
  ])
}

export async function joinedChanges (client: Client<Supabase>): Promise<void> {
  const inserted = await client.batch(b => b.insertFrom('orders', {
    from: {
      table: 'customers',
      columns: [{ column: 'id', as: 'customer' }],
      where: { name: { eq: 'a' } },
      order: [{ customer: 'desc' }],
      limit: 5
    },
    columns: { customer_id: $.col('customer'), total: 5 },
    on_conflict: { columns: ['id'], do: 'nothing' },
    returning: ['id'],
    expect: 1
  }))
  exactly<BatchResult<[{ id: number }]>>().of(inserted)
  const updated = await client.batch(b => b.update('orders', {
    from: { table: 'customers', on: { customer_id: 'id' }, where: { name: { eq: 'a' } } },
    set: { total: $.inc($.from('id')), status: 'open' },
    where: { total: { gt: $.from('id') } },
    returning: ['id']
  }))
  exactly<BatchResult<Array<{ id: number }>>>().of(updated)
  await client.batch(b => [
    b.delete('orders', { from: { table: 'customers', on: { customer_id: 'id' } } }),
    // @ts-expect-error all rows and those that meet others
    b.delete('orders', { from: { table: 'customers', on: { customer_id: 'id' } }, all: true }),
    // @ts-expect-error an unknown table
    b.delete('orders', { from: { table: 'custmers', on: { customer_id: 'id' } } }),
    // @ts-expect-error a missing column
    b.insertFrom('orders', { from: { table: 'customers' }, columns: { total: 5 } }),
    // @ts-expect-error a column of from, without from
    b.update('orders', { set: { total: $.from('id') }, where: { id: { eq: 1 } } })
  ])
}

export async function streams (client: Client<Supabase>, named: NamedStreams): Promise<void> {
  const rows = client.stream(b => b.select('orders', { columns: ['id', 'total'] }))
  for await (const row of rows) exactly<{ id: number, total: number }>().of(row)
  for await (const row of named.stream('late', { days: 1 })) exactly<{ id: number }>().of(row)
  // @ts-expect-error several operations
  client.stream(b => ({ one: b.select('orders') }))
  // @ts-expect-error an unknown parameter
  named.stream('late', { day: 1 })
  // @ts-expect-error a number of rows
  client.stream(b => b.select('orders', { answer: 'count' }))
}

type NamedStreams = Client<Supabase, 'public', 'number', {
  late: { params: { days: number }, result: { orders: Array<{ id: number }> } }
}>

export async function calls (client: Client<Supabase>): Promise<void> {
  const price = await client.batch(b => b.call('price_of', { sku: 'apple' }))
  exactly<BatchResult<Array<{ price_of: number }>>>().of(price)
  const late = await client.batch(b => b.call(
    'late_orders', { days: b.select('orders').row().id },
    { columns: ['late'], where: { id: { gt: 1 } }, order: [{ id: 'asc' }] }
  ))
  exactly<BatchResult<Array<{ late: boolean | null }>>>().of(late)
  await client.batch(b => [
    // @ts-expect-error an unknown function
    b.call('prise_of', { sku: 'apple' }),
    // @ts-expect-error an unknown parameter
    b.call('price_of', { sku: 'apple', quantity: 1 }),
    // @ts-expect-error an unknown column of the result
    b.call('late_orders', { days: 1 }, { columns: ['customer'] })
  ])
}

/** The names in the client's types equal those of the service. */
export function words (): void {
  same<ServiceErrorCode, FailureCode>(true)
  same<Exclude<ErrorType, 'client_error'>, ServiceErrorType>(true)
  same<keyof AnyOperators<never>, OperatorName | 'not'>(true)
  same<
    KeysOf<NonNullable<Parameters<Batch<Supabase>['select']>[1]>> | 'id' | 'op' | 'table',
    keyof typeof Select.properties
  >(true)
  same<
    | KeysOf<NonNullable<Parameters<Batch<Supabase>['insert']>[2]>>
    | KeysOf<Parameters<Batch<Supabase>['insertFrom']>[1]>
    | 'id'
    | 'op'
    | 'table'
    | 'values',
    keyof typeof Insert.properties
  >(true)
  same<
    KeysOf<OnConflict<object, object, 'number', object>>,
    keyof typeof OnConflictSchema.properties
  >(true)
  same<Extract<SelectOptions<object, 'number', object, [], number>['lock'], string>, LockMode>(true)
}

const prelude = `import { $, type Client, type Json } from './src/index.ts'
interface Database { public: { Tables: {
  customers: {
    Row: { id: number, name: string, email: string | null }
    Insert: { id?: number, name: string, email?: string | null }
    Update: { id?: number, name?: string, email?: string | null }
  }
  orders: {
    Row: { id: number, customer_id: number, total: number, data: Json }
    Insert: { customer_id: number, total?: number, data?: Json }
    Update: { customer_id?: number, total?: number, data?: Json }
  }
}, Views: { totals: { Row: { total: number | null } } } } }
declare const client: Client<Database>
`

t.test('compiler messages name the mistake', async t => {
  const names = (...tables: readonly string[]) =>
    tables.flatMap(name => [`"${name}"`, `"public.${name}"`])
  const mistakes: ReadonlyArray<readonly [operation: string, ...message: readonly string[]]> = [
    ["b.select('ordrs')", 'Argument of type \'"ordrs"\' is not assignable to parameter of type \'"',
      ...names('customers', 'orders', 'totals')],
    ["b.select('orders', { where: { totl: { eq: 1 } } })",
      "'totl' does not exist in type 'Filter<{ id: number; customer_id: number; total: " +
      "number; data: Json; }, \"number\", RowsByTable<Database, \"public\">>'. Did you mean to " +
      "write 'total'?"],
    ["b.select('orders', { where: { total: { like: 'a' } } })",
      "'like' does not exist in type 'NumberOperators<"],
    ["b.update('orders', { set: { total: 1 } })", "Property 'where' is missing"],
    ["b.insert('orders', { total: 1 })", "Property 'customer_id' is missing"],
    ["b.insert('orders', { customer_id: b.select('customers').row().name })",
      "Type 'Reference<string>' is not assignable to type 'number | bigint | Reference<number>'."],
    ["b.insert('orders', { customer_id: 1, total: $.default() })",
      'Modifiers are for set and filters. In values, omit a column to use its default.'],
    ["b.insert('orders', { customer_id: b.select('customers').row().di })",
      "Property 'di' does not exist on type 'RowReference<{ id: number; name: string; " +
      "email: string | null; }>'."]
  ]
  const { messages } = compile(
    `${mistakes.map(([operation]) => `client.batch(b => { ${operation} })`).join('\n')}\n${prelude}`
  )
  t.equal(messages.size, mistakes.length)
  for (const [i, [operation, ...parts]] of mistakes.entries()) {
    for (const part of parts) {
      t.ok(messages.get(i + 1)?.includes(part), `${operation}: ${messages.get(i + 1)} has ${part}`)
    }
  }
})

t.test('without "strict", the compiler asks for it', async t => {
  const text = "import { createClient } from './src/index.ts'\ncreateClient({ url: 'http://x' })"
  t.match(compile(text, { strict: false }).messages.get(2), '"strict": true in tsconfig.json')
  t.same([...compile(text).messages], [])
})

t.test('a batch of thirty operations compiles quickly', async t => {
  const operations = (count: number): string =>
    Array.from({ length: count }, (_, i) => `
    const c${i} = b.insert('customers', { name: 'Corner Shop' }, { expect: 1 })
    const o${i} = b.insert('orders', { customer_id: c${i}.row().id, data: { for: c${i}.row() } }, {
      returning: ['id', 'data->>for'] })
    const p${i} = b.update('orders', { set: { total: $.inc(1) },
      where: { id: { eq: o${i}.row().id }, or: [{ total: { lt: 5 } }, { 'data->a': { gt: 1 } }] } })
    const s${i} = b.select('orders', { columns: ['customer_id', { fn: 'sum', column: 'total' }],
      group_by: ['customer_id'], order: [{ sum: 'desc' }] })`)
      .join('')
  const names = (count: number): string =>
    Array.from({ length: count }, (_, i) => `c${i}, o${i}, p${i}, s${i}`).join()
  const batch = (count: number) =>
    compile(`${prelude}client.batch(b => {${operations(count)}
    return { ${names(count)} }
  }).then(({ data }) => data.c0[0].id satisfies number)`)
  const [few, thirty] = [batch(2), batch(8)]
  t.same([...few.messages, ...thirty.messages], [])
  t.ok(thirty.instantiations < 100_000, `${thirty.instantiations} types`)
  t.ok(
    thirty.instantiations < 2 * few.instantiations,
    `four times as many operations are less than twice the work: ${few.instantiations}, ` +
      `${thirty.instantiations}`
  )
})
