/**
 * The shop of deploy/citus, on Citus or on PostgreSQL, and batches of one shard, of several, of
 * reference tables and of the coordinator, whose answers must be the same on both. What the service
 * decides between operations is in the tests that run one by one.
 */
import { readFileSync } from 'node:fs'
import type { Test } from 'tap'
import { useCitusDatabase } from './database/citus.ts'
import { useDatabase } from './database/database.ts'
import * as op from './operations.ts'
import { useService, type Answer, type ServiceUnderTest } from './service.ts'
import { bearer } from './shorthand.ts'

const shop = readFileSync(new URL('../../deploy/citus/shop.sql', import.meta.url), 'utf8')
const more = `
  grant select, insert, update, delete on all tables in schema public to oneflight_user;
  grant usage on all sequences in schema public to oneflight_user;
  insert into currencies values ('EUR', 1), ('USD', 1.1);
  create table events (tenant text not null, id int, note text, at timestamptz,
    primary key (tenant, id));
  create table notes (id int primary key, note text);
  create function list_stock() returns setof stock language sql stable as 'select * from stock';
  create function read_stock() returns setof stock language sql as 'select * from stock';
  create view all_events as select * from events;
  create view listed_stock as select * from list_stock();
  create view apples as select * from listed_stock where sku = 'apple';
  create view all_stock as select * from read_stock();
  grant select, insert, update, delete on events, notes, all_events, listed_stock, apples,
    all_stock to oneflight_user;`
const distribute = `
  select create_distributed_table('events', 'tenant', colocate_with => 'none');
  alter table events enable row level security;
  create function become_gold() returns void language plpgsql as $$
    begin
      set local citus.propagate_set_commands to 'local';
      set local request.jwt.claims to '{"tier": "gold"}';
    end
  $$;
  create function read_outside() returns void language sql as
    'set local citus.select_opens_transaction_block to off';
  create policy not_guest on events
    using (nullif(current_setting('request.jwt.claims', true), '')::json ->> 'tier'
      is distinct from 'guest');`

/** The part of the catalogue of Citus that the service reads, without rows. */
export const citusCatalogue = `
  set allow_system_table_mods to on;
  create table pg_catalog.pg_dist_partition (logicalrelid regclass, partkey text);
  create function pg_catalog.column_to_column_name(regclass, text) returns text
    language sql immutable as 'select $2';
  grant select on pg_catalog.pg_dist_partition to public;
  reset allow_system_table_mods;`

/** The same tables without Citus. */
const undistributed = `${shop}${more}${distribute}`
  .replaceAll(/^.*select create_(distributed|reference)_table.*$/gm, '') + `${citusCatalogue}
  insert into pg_catalog.pg_dist_partition select attrelid, 'tenant' from pg_attribute
    where attname = 'tenant' and attrelid::regclass::text in (select relname from pg_class
      where relkind = 'r' and relnamespace = 'public'::regnamespace);`

export interface Caller {
  readonly tenant?: string
  readonly tier?: string
}

export interface Shop extends ServiceUnderTest {
  readonly as: (
    caller: Caller,
    batch: unknown,
    headers?: Readonly<Record<string, string>>
  ) => Promise<Answer>
}

export async function useShop (
  t: Test,
  engine: 'citus' | 'postgresql',
  env: Readonly<Record<string, string>> = {}
): Promise<Shop> {
  const service = await useService(t, {
    keys: true,
    env,
    ...engine === 'citus'
      ? { schema: `${shop}${more}${distribute}`, provide: useCitusDatabase }
      : { schema: undistributed, provide: useDatabase }
  })
  return {
    ...service,
    as: (caller, batch, headers = {}) =>
      service.post(batch, { headers: { authorization: bearer(caller), ...headers } })
  }
}

export const acme = { tenant: 'acme' }
const rows = (tenants: readonly string[]): object[] =>
  tenants.map((tenant, id) => ({ tenant, id, note: `n${id}`, at: '2026-01-02T03:04:05+02:00' }))
/** Tenants of several shards, in an order that is not that of the shards. */
const many = Array.from({ length: 12 }, (_, i) => `t${(i * 7) % 12}`)
const insertMany = { id: 'e', op: 'insert', table: 'events', values: rows(many) }

const ofAcme = { tenant: { eq: 'acme' } }

interface Case {
  readonly name: string
  readonly batch: unknown
}

/** Batches of which each runs after those before it. */
const CASES: readonly Case[] = [
  {
    name: 'references from row to row',
    batch: [
      op.insert('c', 'customers', [{ id: 2, name: 'Corner' }], { returning: ['id', 'name'] }),
      op.insert('s', 'stock', [
        { sku: 'apple', price: '1.10', qty: 10 },
        { sku: 'pear', price: 2, qty: 5 }
      ]),
      { id: 'o', op: 'insert', table: 'orders', values: [{ id: 20, customer_id: '$c.0.id' }] },
      op.insert('i', 'order_items', [
        { order_id: '$o.0.id', sku: '$s.1.sku', qty: 2 },
        { order_id: '$o.0.id', sku: '$s.0.sku', qty: 3 }
      ]),
      op.update('u', 'stock', {
        set: { qty: { $inc: -3 } },
        where: { tenant: { eq: '$s.0.tenant' }, sku: { eq: '$s.0.sku' } }
      }),
      op.select('r', 'orders', {
        columns: ['id', 'status', 'customer_id'], where: { ...ofAcme, id: { eq: '$o.0.id' } }
      }),
      op.select('l', 'stock', {
        columns: ['sku', 'qty'], where: { sku: { in: '$i.*.sku' } }, order: [{ sku: 'asc' }]
      })
    ]
  },
  {
    name: 'values with arrays, objects and nulls',
    batch: [
      op.insert('c', 'customers', [
        { id: 3, name: 'A', tags: ['x', 'y'], data: { a: [1, { b: null }] } },
        { id: 4, name: 'B', data: null }
      ], { returning: ['id', 'tags', 'data'] }),
      op.update('u', 'customers', {
        set: { tags: ['z'], data: { c: 1 } },
        where: { ...ofAcme, id: { eq: 3 } },
        returning: ['tags', 'data']
      }),
      op.select('s', 'customers', {
        columns: ['id', 'data->c'], where: { ...ofAcme, 'data->c': { eq: 1 } }
      })
    ]
  },
  {
    name: 'rows of several shards, in their order',
    batch: [
      insertMany,
      { id: 'n', op: 'insert', table: 'notes', values: [{ id: 1, note: '$e.3.tenant' }] },
      op.select('s', 'events', { order: [{ tenant: 'asc' }, { id: 'asc' }] })
    ]
  },
  {
    name: 'updates and deletes of all shards',
    batch: [
      op.update('u', 'events', {
        set: { note: 'changed' }, where: { id: { gt: 8, lt: 100 } }, returning: []
      }),
      { id: 'd', op: 'delete', table: 'events', where: { id: { eq: 101 } } },
      op.select('s', 'events', { columns: ['id', 'note', 'at'], order: [{ id: 'asc' }], limit: 30 })
    ]
  },
  {
    name: 'an upsert',
    batch: [
      op.insert('a', 'stock', [
        { sku: 'apple', price: 1.2, qty: 1 },
        { sku: 'plum', price: 3, qty: 7 }
      ], {
        on_conflict: {
          columns: ['tenant', 'sku'],
          do: 'update',
          set: { price: { $excluded: 'price' } }
        }
      }),
      op.insert('b', 'stock', [
        { sku: 'plum', price: 9, qty: 9 },
        { sku: 'fig', price: 4, qty: 4 }
      ], { on_conflict: { columns: ['tenant', 'sku'], do: 'nothing' } }),
      op.insert('n', 'order_items', [{ order_id: 20, sku: '$b.0.sku', qty: 1 }])
    ]
  },
  {
    name: 'conditions on groups of all shards, in an order',
    batch: [
      op.select('h', 'events', {
        columns: ['tenant', { fn: 'sum', column: 'id', as: 'total' }],
        group_by: ['tenant'],
        having: { total: { gt: 2 } },
        order: [{ total: 'desc' }],
        limit: 3
      }),
      op.select('g', 'events', {
        columns: [{ fn: 'max', column: 'id', as: 'last' }],
        group_by: ['tenant', 'note'],
        having: { last: { gte: 1 } },
        order: [{ note: 'desc' }, { tenant: 'asc' }],
        offset: 1
      }),
      op.select('d', 'events', {
        columns: ['tenant', 'note'],
        distinct: true,
        having: { note: { neq: 'n3' } },
        order: [{ tenant: 'desc' }],
        limit: 4
      })
    ]
  },
  {
    name: 'nested rows of one shard',
    batch: [
      op.select('c', 'customers', {
        where: ofAcme,
        columns: ['tenant', 'id', 'name'],
        order: [{ id: 'asc' }],
        with: {
          orders: {
            table: 'orders',
            on: { tenant: 'tenant', customer_id: 'id' },
            order: [{ id: 'desc' }],
            with: {
              items: {
                table: 'order_items',
                on: { tenant: 'tenant', order_id: 'id' },
                columns: ['sku', 'qty'],
                order: [{ sku: 'asc' }],
                limit: 1
              }
            }
          }
        }
      }),
      op.select('o', 'orders', {
        where: { ...ofAcme, customer_id: { eq: '$c.0.id' } },
        with: {
          customer: {
            table: 'customers',
            on: { tenant: 'tenant', id: 'customer_id' },
            columns: ['name'],
            one: true
          }
        }
      })
    ]
  },
  {
    name: 'nested rows of all shards',
    batch: [op.select('e', 'events', {
      columns: ['tenant', 'id'],
      order: [{ id: 'desc' }],
      limit: 5,
      with: {
        notes: {
          table: 'events',
          on: { tenant: 'tenant' },
          columns: ['note'],
          order: [{ id: 'asc' }]
        },
        rate: { table: 'currencies', on: { code: 'note' }, one: true }
      }
    })]
  },
  {
    name: 'a function that returns rows, its view, and an insert from a query in its order',
    batch: [
      { id: 'f', op: 'call', function: 'read_stock', order: [{ tenant: 'asc' }, { sku: 'asc' }] },
      { id: 'v', op: 'select', table: 'all_stock', order: [{ tenant: 'asc' }, { sku: 'asc' }] },
      { id: 'g', op: 'call', function: 'read_stock', where: { sku: { eq: '$f.0.sku' } } },
      op.insert('n', 'notes', undefined, {
        from: { table: 'events', order: [{ tenant: 'desc' }, { id: 'desc' }] },
        columns: { id: 50, note: { $col: 'tenant' } },
        on_conflict: { columns: ['id'], do: 'nothing' }
      })
    ]
  },
  {
    name: 'an update by key',
    batch: [
      op.update('k', 'stock', {
        key: ['tenant', 'sku'],
        values: [
          { tenant: 'acme', sku: 'plum', qty: { $inc: 5 } },
          { tenant: 'acme', sku: 'apple', qty: { $inc: 6 } }
        ]
      }),
      op.update('m', 'events', {
        key: ['tenant', 'id'],
        values: many.map((tenant, id) => ({ tenant, id, note: `k${id}` })),
        returning: ['id', 'note']
      }),
      op.insert('n', 'notes', [{ id: 9, note: '$m.5.note' }])
    ]
  },
  {
    name: 'a join',
    batch: [
      op.update('j', 'orders', {
        set: { status: 'paid' },
        from: {
          table: 'customers',
          on: { tenant: 'tenant', customer_id: 'id' },
          where: { ...ofAcme, name: { eq: 'Corner' } }
        }
      }),
      op.delete('d', 'order_items', {
        from: {
          table: 'stock',
          on: { tenant: 'tenant', sku: 'sku' },
          where: { ...ofAcme, sku: { eq: 'pear' } }
        }
      })
    ]
  },
  {
    name: 'lists of references in conditions of changes and on groups',
    batch: [
      op.insert('i', 'events', rows(['l1', 'l2', 'l3', 'l1', 'l2', 'l3']).map((row, n) => ({
        ...row,
        id: 500 + n
      }))),
      op.select('s', 'events', {
        columns: ['id', 'note', { column: 'tenant', as: 'owner' }],
        where: { id: { in: [501, 504] } },
        order: [{ id: 'asc' }]
      }),
      op.delete('d', 'events', {
        where: { note: { in: '$s.*.note' }, id: { gte: 500 } }, answer: 'count'
      }),
      op.update('u', 'events', {
        set: { note: 'kept' },
        where: { id: { gte: 500, nin: [500, '$s.0.id'] }, tenant: { neq: { all: '$s.*.owner' } } },
        answer: 'count'
      }),
      op.select('g', 'events', {
        columns: ['note', { fn: 'max', column: 'id', as: 'last' }],
        where: { id: { gte: 500 } },
        group_by: ['note'],
        having: { last: { in: [505, '$s.0.id'] } }
      })
    ]
  }
]

/** Runs all batches on two shops, three times: the second and third times in another form. */
export async function compareShops (t: Test, actual: Shop, expected: Shop): Promise<void> {
  const shops = [actual, expected] as const
  for (const round of [1, 2, 3]) {
    for (const { name, batch } of CASES) {
      const [answer, right] = await Promise.all(
        shops.map(shop => shop.as(acme, batch))
      ) as [Answer, Answer]
      const what = `${name}, round ${round}`
      t.equal(right.body.error, null, `${what}: PostgreSQL`)
      t.same(comparable(answer), comparable(right), what)
    }
    for (const { database: { sql } } of shops) {
      for (const table of ['order_items', 'orders', 'stock', 'customers', 'events', 'notes']) {
        await sql.unsafe(`delete from ${table}`)
      }
    }
  }
}

/** Without what differs by nature: the time of a default, and the id of a request. */
function comparable ({ text }: Answer): unknown {
  return JSON.parse(text, (name, value) =>
    name === 'created_at' || name === 'request_id' ? undefined : value)
}
