/**
 * Tests every example of the language reference, written with the client: the client sends the
 * printed batch and returns the printed response. Every member, operator and modifier has an
 * example. Where possible, the types reject a batch that the service rejects.
 */
import t from 'tap'
import { $, OneflightError, type Batch, type BatchOptions } from '../../client/src/index.ts'
import { operators } from '../../schemas/operator.ts'
import { modifiers } from '../../schemas/modifier.ts'
import { memberKinds } from '../../schemas/operation.ts'
import { useClient, type LanguageDatabase } from '../support/client.ts'
import { codeBlocks } from '../support/docs/markdown.ts'
import { readLanguage } from '../support/docs/pages.ts'
import { useService } from '../support/service.ts'

/** Options of selects that return one column, in its order. */
const ids = { columns: ['id'], order: [{ id: 'asc' }] } as const
const names = { columns: ['name'], order: [{ name: 'asc' }] } as const

type Build = (b: Batch<LanguageDatabase>) => object

/** The examples by heading, in the order of the page. The member names are the operation ids. */
const batches: Readonly<Record<string, ReadonlyArray<Build | readonly [Build, BatchOptions]>>> = {
  Insert: [b => ({
    new: b.insert('customers', [
      { name: 'Night Kiosk', email: 'kiosk@example.com' },
      { name: 'Market Stall', email: null, city: 'Genoa' }
    ])
  })],
  'Insert from a query': [
    b => {
      const order = b.insert('orders', { customer_id: 2 })
      return {
        order,
        items: b.insertFrom('order_items', {
          from: { table: 'cart_items', where: { cart_id: { eq: 7 } }, order: [{ sku: 'asc' }] },
          columns: { order_id: order.row().id, sku: $.col('sku'), qty: $.col('qty') },
          expect: { min: 1 }
        }),
        emptied: b.delete('cart_items', { where: { cart_id: { eq: 7 } } })
      }
    }
  ],
  'Changes joined to other rows': [b => ({
    restocked: b.update('stock', {
      from: { table: 'order_items', on: { sku: 'sku' }, where: { order_id: { eq: 2 } } },
      set: { qty: $.inc($.from('qty')) },
      returning: ['sku', 'qty']
    }),
    scarce: b.delete('cart_items', {
      from: { table: 'stock', on: { sku: 'sku' } },
      where: { qty: { lt: $.from('qty') }, cart_id: { eq: 8 } }
    }),
    totals: b.update('orders', {
      from: {
        table: 'order_items',
        on: { id: 'order_id' },
        columns: ['order_id', { fn: 'sum', column: 'qty', as: 'pieces' }],
        group_by: ['order_id']
      },
      set: { total: $.from('pieces') },
      where: { status: { eq: 'open' } },
      returning: ['id', 'total']
    })
  })],
  Update: [
    b => ({
      shipped: b.update('stock', { set: { qty: 12, sold: 3 }, where: { sku: { eq: 'apple' } } })
    }),
    b => ({ season: b.update('stock', { set: { sold: 0 }, all: true, returning: ['sku'] }) })
  ],
  'Update by key': [b => ({
    counted: b.update('stock', {
      key: ['sku'],
      values: [
        { sku: 'quince', qty: 7, counted_at: '2026-03-01T08:00:00Z' },
        { sku: 'banana', qty: 4 },
        { sku: 'apple', qty: $.inc(-1) }
      ],
      returning: ['sku', 'qty']
    })
  })],
  Delete: [b => ({ gone: b.delete('bookings', { where: { room: { eq: 'red' } } }) })],
  Select: [b => ({
    porto: b.select('customers', { where: { city: { eq: 'Porto' } }, order: [{ id: 'asc' }] })
  })],
  'Nested rows': [b => ({
    orders: b.select('orders', {
      columns: ['id', 'status'],
      where: { id: { lte: 2 } },
      order: [{ id: 'asc' }],
      with: {
        customer: { table: 'customers', on: { id: 'customer_id' }, one: true, columns: ['name'] },
        items: {
          table: 'order_items',
          on: { order_id: 'id' },
          columns: ['sku', 'qty'],
          order: [{ sku: 'asc' }],
          with: { stock: { table: 'stock', on: { sku: 'sku' }, one: true, columns: ['qty'] } }
        }
      }
    })
  })],
  Call: [
    b => {
      const line = b.select('order_items', { where: { order_id: { eq: 1 } } })
      return {
        line,
        price: b.call('price_of', { sku: line.row().sku, qty: line.row().qty }),
        taken: b.call('take_stock', { wanted: { apple: 4, pear: 1 } }, {
          columns: ['sku', 'qty'], order: [{ sku: 'asc' }]
        })
      }
    }
  ],
  'All issues at once': [
    b => ({
      // @ts-expect-error an unknown member
      a: b.select('stock', { wheer: { sku: { eq: 'apple' } } }),
      // @ts-expect-error an unknown operator; null does not equal anything
      b: b.delete('stock', { where: { qty: { equals: 0 }, sku: { eq: null } } })
    })
  ],
  Comparisons: [
    b => ({
      found: b.select('orders', {
        columns: ['id', 'status', 'total'],
        where: { status: { neq: 'open' }, total: { gte: 10, lt: 50 } }
      }),
      named: b.select('customers', {
        columns: ['name'], where: { email: { match: '^(corner|kiosk)@' }, name: { like: '% Shop' } }
      })
    }),
    b => ({
      march: b.select('orders', {
        columns: ['id', 'placed'],
        where: { placed: { between: ['2026-03-01', '2026-03-31'] } },
        order: [{ placed: 'asc' }]
      })
    })
  ],
  NULL: [b => ({
    silent: b.select('customers', { columns: ['name'], where: { email: { is: null } } }),
    others: b.select('customers', {
      ...names, where: { email: { isdistinct: 'bakery@example.com' } }
    })
  })],
  Lists: [
    b => ({
      in: b.select('orders', { ...ids, where: { status: { in: ['paid', 'shipped'] } } }),
      nin: b.select('orders', { columns: ['id'], where: { id: { nin: [1, 2, 3] } } }),
      none: b.select('orders', { columns: ['id'], where: { id: { in: [] } } })
    }),
    b => ({
      any: b.select('customers', {
        ...names, where: { name: { ilike: $.any(['%shop', 'harbour%']) } }
      }),
      all: b.select('articles', {
        columns: ['title'],
        where: { body: { imatch: $.all(['cellar', 'apples?']) } },
        order: [{ title: 'asc' }]
      })
    })
  ],
  'And, or, not': [b => ({
    due: b.select('orders', {
      columns: ['id', 'status', 'total'],
      where: {
        status: { not: { in: ['shipped'] } },
        or: [
          { total: { gt: 10 } },
          { and: [{ customer_id: { eq: 3 } }, { not: { tags: { cs: ['express'] } } }] }
        ]
      },
      order: [{ id: 'asc' }]
    })
  })],
  'Another column': [b => ({
    unpaid: b.select('orders', {
      columns: ['id', 'total', 'paid'], where: { paid: { lt: $.col('total') } }
    })
  })],
  Paths: [
    b => ({
      text: b.select('orders', {
        columns: ['id'], where: { 'data->items->0->>sku': { like: 'p%' } }
      }),
      number: b.select('orders', { columns: ['id'], where: { 'data->weight': { gt: 10 } } })
    }),
    b => ({
      gifts: b.select('orders', {
        columns: ['id', { column: 'tags->>0', as: 'tag' }],
        where: { 'tags->0': { eq: 'gift' } },
        order: [{ id: 'asc' }]
      })
    })
  ],
  'Whole jsonb values': [b => ({
    contains: b.select('orders', {
      ...ids, where: { data: { cs: { items: [{ sku: 'apple' }] } } }
    }),
    keys: b.select('orders', {
      ...ids, where: { data: { has_key: 'items', has_keys_any: ['note', 'weight'] } }
    }),
    both: b.select('orders', {
      columns: ['id'], where: { data: { has_keys_all: ['items', 'weight'] } }
    }),
    equal: b.select('orders', { columns: ['id'], where: { data: { eq: {} } } })
  })],
  'Another table': [b => ({
    loyal: b.select('customers', {
      columns: ['name'],
      where: {
        exists: {
          table: 'orders', on: { customer_id: 'id' }, where: { status: { in: ['paid', 'shipped'] } }
        }
      },
      order: [{ name: 'asc' }]
    }),
    unsold: b.delete('stock', {
      where: {
        not_exists: { table: 'order_items', on: { sku: 'sku' }, where: { qty: { lt: 3 } } }
      },
      returning: ['sku']
    })
  })],
  'Arrays and ranges': [
    b => ({
      both: b.select('orders', { columns: ['id'], where: { tags: { cs: ['express', 'gift'] } } }),
      only: b.select('orders', { ...ids, where: { tags: { cd: ['express', 'fragile'] } } }),
      one: b.select('orders', { ...ids, where: { tags: { ov: ['gift', 'fragile'] } } }),
      none: b.select('orders', { columns: ['id'], where: { tags: { eq: [] } } })
    }),
    b => ({
      taken: b.select('bookings', {
        columns: ['id', 'room'],
        where: { during: { ov: '[2026-07-04,2026-07-05)' } },
        order: [{ id: 'asc' }]
      }),
      on: b.select('bookings', {
        columns: ['id'], where: { during: { cs: '[2026-07-06,2026-07-06]' } }
      }),
      next: b.select('bookings', {
        columns: ['id'], where: { during: { adj: '[2026-07-08,2026-07-10)' } }
      }),
      before: b.select('bookings', {
        columns: ['id'], where: { during: { sl: '[2026-07-05,2026-07-07)' } }
      }),
      after: b.select('bookings', {
        columns: ['id'], where: { during: { sr: '[2026-07-01,2026-07-05)' } }
      }),
      ending: b.select('bookings', {
        columns: ['id'], where: { during: { nxr: '[2026-07-02,2026-07-05)' } }
      }),
      beginning: b.select('bookings', {
        columns: ['id'], where: { during: { nxl: '[2026-07-05,2026-07-06)' } }
      })
    })
  ],
  'Full text': [b => ({
    words: b.select('articles', {
      columns: ['id', 'title'],
      where: { words: { wfts: { query: 'apple -wine', config: 'english' } } }
    }),
    operators: b.select('articles', {
      ...ids, where: { words: { fts: { query: 'cake | wine', config: 'english' } } }
    }),
    phrase: b.select('articles', {
      columns: ['id'], where: { words: { phfts: { query: 'ripe pears', config: 'english' } } }
    }),
    text: b.select('articles', {
      columns: ['id'], where: { body: { plfts: { query: 'needs sugar', config: 'english' } } }
    }),
    whole: b.select('orders', {
      columns: ['id'], where: { data: { plfts: { query: 'ringing', config: 'english' } } }
    })
  })],
  References: [
    b => {
      const customer = b.insert('customers', { name: 'Night Kiosk' })
      const order = b.insert('orders', {
        customer_id: customer.row().id,
        data: { for: customer.row(0).name, row: customer.row(), open: true }
      }, { returning: ['id', 'customer_id', 'data'] })
      const check = b.select('orders', {
        columns: ['status'],
        where: { id: { eq: order.row().id }, 'data->row': { eq: customer.row(0) } }
      })
      return { customer, order, check }
    },
    b => {
      const express = b.select('orders', {
        columns: ['id', 'customer_id'], where: { tags: { cs: ['express'] } }, order: [{ id: 'asc' }]
      })
      const customers = b.select('customers', {
        columns: ['name'], where: { id: { in: express.rows.customer_id } }, order: [{ id: 'asc' }]
      })
      const first = b.select('customers', {
        columns: ['name'],
        where: { id: { in: [express.row(0).customer_id, 3] } },
        order: [{ id: 'asc' }]
      })
      const note = b.update('orders', {
        set: { data: { with: express.rows.id } }, where: { id: { eq: 4 } }, returning: ['data']
      })
      return { express, customers, first, note }
    },
    b => {
      const customer = b.select('customers', { where: { name: { eq: 'Unknown' } } })
      return { customer, order: b.insert('orders', { customer_id: customer.row().id }) }
    },
    b => {
      const kept = b.select('articles', {
        columns: ['id'], where: { title: { like: '%cherries%' } }
      })
      return { kept, gone: b.delete('articles', { where: { id: { nin: kept.rows.id } } }) }
    },
    b => ({
      kiosk: b.insert('customers', { name: '$5.00 and less', city: '$kiosk.0.id' }, {
        returning: ['name', 'city']
      })
    })
  ],
  Columns: [b => ({
    notes: b.select('orders', {
      columns: ['id', 'data->>note', { column: 'data->items->0', as: 'first' }],
      where: { id: { lte: 2 } },
      order: [{ id: 'asc' }]
    }),
    paid: b.update('orders', {
      set: { status: 'paid' },
      where: { id: { eq: 2 } },
      returning: ['id', { column: 'total', as: 'amount' }]
    }),
    everything: b.select('cart_items', {
      columns: ['*', { column: 'qty', as: 'pieces' }], where: { cart_id: { eq: 8 } }
    }),
    quiet: b.delete('articles', { where: { id: { eq: 3 } }, returning: [] })
  })],
  Casts: [b => ({
    heavy: b.select('orders', {
      columns: ['id', { column: 'data->>weight', cast: 'numeric', as: 'kilos' }],
      having: { kilos: { gt: 9 } }
    }),
    load: b.select('orders', {
      columns: [{ fn: 'sum', column: 'data->>weight', cast: 'numeric', as: 'kilos' }]
    })
  })],
  Aggregates: [b => ({
    totals: b.select('orders', {
      columns: ['status', { fn: 'count' }, { fn: 'sum', column: 'total', as: 'worth' }],
      group_by: ['status'],
      order: [{ worth: 'desc' }]
    }),
    all: b.select('orders', {
      columns: [
        { fn: 'max', column: 'placed' },
        { fn: 'count', column: 'placed' },
        { fn: 'count', column: 'customer_id', distinct: true, as: 'customers' }
      ]
    })
  })],
  'Conditions on the output': [b => ({
    cities: b.select('customers', {
      columns: ['city', { fn: 'count', as: 'customers' }],
      group_by: ['city'],
      having: { customers: { gt: 1 } }
    }),
    short: b.select('orders', {
      columns: ['id', { column: 'data->>note', as: 'remark' }],
      having: { remark: { is: 'not_null' } }
    })
  })],
  'Distinct rows': [b => ({
    cities: b.select('customers', { columns: ['city'], distinct: true, order: [{ city: 'asc' }] })
  })],
  'Order, limit, offset': [b => ({
    page: b.select('orders', {
      columns: ['id', 'placed'],
      order: [{ placed: { direction: 'desc', nulls: 'last' } }, { id: 'asc' }],
      limit: 2,
      offset: 1
    })
  })],
  Pages: [
    b => {
      const first = b.select('orders', {
        columns: ['placed', 'id'], order: [{ placed: 'asc' }, { id: 'asc' }], limit: 2
      })
      return {
        first,
        second: b.select('orders', {
          columns: ['placed', 'id'],
          order: [{ placed: 'asc' }, { id: 'asc' }],
          after: [first.row(1).placed, first.row(1).id],
          limit: 2
        }),
        third: b.select('orders', {
          columns: ['placed', 'id'],
          order: [{ placed: 'asc' }, { id: 'asc' }],
          after: [null, 4],
          limit: 2
        })
      }
    }
  ],
  Counts: [
    b => {
      const open = b.select('orders', { where: { status: { eq: 'open' } }, answer: 'count' })
      return {
        open,
        customers: b.select('customers', { ...names, where: { id: { in: open.rows.customer_id } } })
      }
    }
  ],
  Locks: [
    b => {
      const next = b.select('orders', {
        ...ids,
        where: { status: { eq: 'open' } },
        limit: 1,
        lock: { mode: 'update', wait: 'skip_locked' }
      })
      return {
        next,
        taken: b.update('orders', {
          set: { status: 'paid' }, where: { id: { in: next.rows.id } }, returning: ['id', 'status']
        })
      }
    }
  ],
  Conflicts: [
    b => ({
      added: b.insert('stock', [{ sku: 'apple', qty: 1 }, { sku: 'cherry', qty: 7 }], {
        on_conflict: { columns: ['sku'], do: 'nothing' }, returning: ['sku', 'qty']
      })
    }),
    b => ({
      saved: b.insert('stock', [{ sku: 'apple', qty: 3 }, { sku: 'cherry', qty: 7 }], {
        on_conflict: { constraint: 'stock_pkey', do: 'update' }, returning: ['sku', 'qty']
      })
    }),
    b => ({
      came: b.insert('stock', [{ sku: 'apple', qty: 3 }, { sku: 'pear', qty: 5 }], {
        on_conflict: {
          columns: ['sku'],
          do: 'update',
          set: { qty: $.excluded('qty'), sold: $.inc(1) },
          where: { qty: { neq: $.excluded('qty') } }
        },
        returning: ['sku', 'qty', 'sold']
      })
    }),
    b => ({
      synced: b.insert('stock', [{ sku: 'apple', qty: 3 }, { sku: 'cherry', qty: 7 }], {
        on_conflict: { columns: ['sku'], do: 'update' },
        returning: ['sku', { fn: 'inserted', as: 'created' }]
      })
    }),
    b => ({
      basket: b.insert('orders', { customer_id: 1, total: 2.80 }, {
        returning: ['id', 'customer_id', 'total'],
        on_conflict: {
          columns: ['customer_id'],
          index_where: { status: { eq: 'open' } },
          do: 'update',
          set: { total: $.inc('2.80') }
        }
      })
    })
  ],
  'Find or create': [
    b => {
      const email = 'kiosk@example.com'
      const found = b.select('customers', { columns: ['id'], where: { email: { eq: email } } })
      const created = b.insert('customers', { name: 'Night Kiosk', email }, {
        on_conflict: { columns: ['email'], do: 'update' }, when: [[found, 0]], returning: ['id']
      })
      const order = b.insert('orders', {
        customer_id: $.first(found.row().id, created.row().id)
      }, { returning: ['id', 'customer_id'] })
      return { found, created, order }
    },
    b => {
      const open = b.select('orders', { where: { customer_id: { eq: 2 }, status: { eq: 'open' } } })
      const any = b.select('orders', {
        where: { customer_id: { eq: 2 } }, when: [[open, 0]], limit: 1
      })
      const id = $.first(open.row().id, any.row().id)
      const noted = b.update('orders', {
        set: { total: $.first(open.row().total, any.row().total), data: { copy_of: id } },
        where: { id: { gt: id } },
        returning: ['id', 'total', 'data']
      })
      return { open, any, noted }
    }
  ],
  'Computed values': [
    b => ({
      sold: b.update('stock', {
        set: { qty: $.dec(2), sold: $.inc(2), counted_at: $.now() },
        where: { sku: { eq: 'apple' } },
        returning: ['sku', 'qty', 'sold']
      }),
      settled: b.update('orders', {
        set: { paid: $.col('total'), total: $.mul(2), status: $.default() },
        where: { id: { eq: 3 } },
        returning: ['id', 'status', 'total', 'paid']
      })
    }),
    b => ({
      merged: b.update('orders', {
        set: {
          data: $.merge({ note: 'left at the door', weight: 3 }), tags: $.append(['fragile'])
        },
        where: { id: { eq: 1 } },
        returning: ['tags', 'data']
      }),
      removed: b.update('orders', {
        set: { data: $.remove('items') }, where: { id: { eq: 1 } }, returning: ['data']
      }),
      plain: b.update('orders', {
        set: { data: { $inc: 1 } }, where: { id: { eq: 4 } }, returning: ['data']
      })
    })
  ],
  'Conditions between operations': [
    b => {
      const cherries = { sku: { eq: 'cherry' } }
      const counted = b.update('stock', { set: { qty: $.inc(7) }, where: cherries })
      const added = b.insert('stock', { sku: 'cherry', qty: 7 }, {
        when: [[counted, 0]], returning: ['sku', 'qty']
      })
      const recounted = b.select('stock', {
        where: cherries, when: [[counted, { min: 1 }], [added, 0]]
      })
      return { counted, added, recounted }
    }
  ],
  Expectations: [
    b => ({
      order: b.update('orders', {
        set: { status: 'shipped' },
        where: { id: { eq: 1 }, status: { eq: 'paid' } },
        expect: 1,
        returning: ['id', 'status']
      })
    }),
    b => ({
      stock: b.update('stock', { set: { qty: $.inc(-4) }, where: { sku: { eq: 'apple' } } }),
      order: b.update('orders', {
        set: { status: 'shipped' }, where: { id: { eq: 1 }, status: { eq: 'paid' } }, expect: 1
      })
    }),
    b => ({
      stock: b.select('stock', {
        columns: ['qty'], where: { sku: { eq: 'apple' } }, expect: { min: 1, max: 5 }
      })
    })
  ],
  'Dry run': [
    [
      b => ({
        gone: b.delete('bookings', { all: true, returning: ['id'] }),
        left: b.select('bookings', { columns: [{ fn: 'count' }] })
      }),
      { dryRun: true }
    ],
    b => ({ left: b.select('bookings', { columns: [{ fn: 'count' }] }) })
  ],
  'Row counts': [[
    b => ({
      added: b.insert('stock', [{ sku: 'cherry', qty: 7 }, { sku: 'plum', qty: 2 }]),
      none: b.delete('stock', { where: { sku: { eq: 'fig' } } })
    }),
    { return: 'minimal' }
  ]],
  'Isolation and access': [
    [
      b => ({
        orders: b.select('orders', { columns: [{ fn: 'count' }] }),
        items: b.select('stock', { columns: [{ fn: 'sum', column: 'qty' }] })
      }),
      { isolation: 'repeatable-read', readOnly: true }
    ],
    [b => ({ add: b.insert('stock', { sku: 'cherry', qty: 7 }) }), { readOnly: true }]
  ],
  Timing: [[b => ({ count: b.select('stock', { columns: [{ fn: 'count' }] }) }), { timing: true }]],
  'Query plan': [[b => ({ gone: b.delete('bookings', { all: true }) }), { explain: true }]],
  'Errors of PostgreSQL': [b => ({
    new: b.insert('customers', { name: 'Night Kiosk' }),
    twin: b.insert('customers', { name: 'Corner Shop', email: 'corner@example.com' })
  })]
}

/** The heading of an example that the client cannot send: an unknown preference. */
const notInClient = 'Strict handling'

const page = codeBlocks(readLanguage())
const [tables = '', data = ''] = page.filter(({ language }) => language === 'sql')
  .map(({ text }) => text)
const printed = page.filter(({ language, heading, text }) =>
  language === 'json' && heading !== notInClient && /^[[{]/.test(text)
)
const examples = printed.filter(({ text }) => text.startsWith('[')).map(batch => ({
  ...batch,
  answer: JSON.parse(printed[printed.indexOf(batch) + 1]?.text ?? '') as {
    error: object | null,
    data: object | null
  }
}))

/** Adds the row index 0 to references without one, as the client does. Leaves `$$` unchanged. */
const longForm = (batch: string): string => batch.replace(
  /"\$(\w+)(\.\w+)?"(?!:)/g,
  (text, op: string, rest = '') => /\.\d/.test(rest as string) ? text : `"$${op}.0${String(rest)}"`
)

t.test('the client sends the printed batches and returns the printed responses', async t => {
  const service = await useService(t, {
    schema: `${tables}; grant all on all tables in schema public to oneflight_user`
  })
  const { sql } = service.database
  const [all] = await sql`select string_agg(relname, ',') as names from pg_class
    where relnamespace = 'public'::regnamespace and relkind = 'r'`
  let body = ''
  const client = useClient<LanguageDatabase>(service, {
    idempotency: false,
    fetch: async (url, init) => {
      body = String(init.body)
      return fetch(url, init)
    }
  })
  const used = new Map<string, number>()
  for (const { heading, lead, text, answer } of examples) {
    const position = used.get(heading) ?? 0
    used.set(heading, position + 1)
    const batch = batches[heading]?.[position]
    if (batch === undefined) {
      t.fail(`no batch for example ${position} of ${heading}`)
      continue
    }
    const [build, options] = typeof batch === 'function' ? [batch, {}] : batch
    if (lead !== 'Then, on the same data:') {
      await sql.unsafe(`truncate ${all?.['names']} restart identity; ${data}`)
    }
    const outcome = await client.batch(build as () => Record<string, never>, {
      ...options, requestId: 'docs'
    }).catch((error: unknown) => error)
    const name = `${heading}, example ${position}`
    t.same(JSON.parse(body), JSON.parse(longForm(text)), `${name}: the batch`)
    if (answer.error === null) {
      t.same((outcome as { data: unknown }).data, answer.data, `${name}: the response`)
    } else {
      t.ok(outcome instanceof OneflightError, name)
      const { request_id: requestId, ...expected } = answer.error as Record<string, unknown>
      t.match(outcome, { ...expected, requestId }, `${name}: the error`)
    }
  }
  t.same(
    Object.fromEntries(used),
    Object.fromEntries(Object.entries(batches).map(([heading, list]) => [heading, list.length])),
    'every example is used'
  )
})

t.test('every member, operator and modifier has an example', async t => {
  const sent = JSON.stringify(examples.map(({ text }) => JSON.parse(text) as unknown))
  const words = [
    ...Object.keys(operators), ...Object.keys(modifiers), ...memberKinds.keys(), 'any', 'all'
  ]
  for (const word of words) t.ok(sent.includes(`"${word}":`), word)
})
