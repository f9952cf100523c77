/**
 * Inserts and updates. They find rows by keys of a fixed set, and what they insert is removed
 * before every slice, so that the tables keep their size.
 */
import {
  boxesOf,
  decimal,
  integer,
  pick,
  pickBox,
  pickShelf,
  rowsOf,
  text,
  type Random,
  type Word
} from './word.ts'

const PRICE = 1.5

const entry = { box_id: integer, sku: text, qty: integer, price: decimal }
const makeEntry = (caller: number, random: Random) => ({
  box_id: pickBox(caller, random).box,
  sku: 'apple',
  qty: 1 + pick(9, random),
  price: PRICE
})

const box = { box: integer, shelf: integer, label: text, weight: integer }
const makeBox = (caller: number, random: Random) => ({
  ...pickBox(caller, random),
  label: `box ${pick(1000, random)}`,
  weight: pick(1000, random)
})
const boxColumns = ['id', 'label', 'weight'] as const

const inserts = (title: string, count: number) =>
  ({
    title,
    params: { rows: rowsOf(entry) },
    make: (caller, random) => ({
      rows: Array.from({ length: count }, () => makeEntry(caller, random))
    }),
    operations: ({ rows }) => [
      { id: 'added', op: 'insert', table: 'entries', values: rows, returning: ['id'] }
    ],
    // The ids differ; their number must be the same.
    compared: [],
    proof: ['"id"', count],
    adds: { entries: count, prices: count * PRICE }
  }) as const satisfies Word

/** The next box that does not exist: reset_tables() leaves those with smaller ids. */
let newBox = 10_000

export const changes = {
  insert: {
    title: 'Insert of one row',
    params: entry,
    make: makeEntry,
    operations: row => [{ id: 'added', op: 'insert', table: 'entries', values: [{ ...row }] }],
    compared: ['box_id', 'sku', 'qty', 'price', 'owner'],
    adds: { entries: 1, prices: PRICE }
  },
  'insert-types': {
    title: 'Insert with array, enum, jsonb and domain',
    params: {
      tags: { type: 'array', items: text },
      colour: text,
      data: { type: 'object' },
      filled: decimal
    },
    make: (_caller, random) => ({
      tags: ['gift', 'express'],
      colour: 'green',
      data: { note: 'ring twice', weight: pick(1000, random), stops: ['Lyon', 'Porto'] },
      filled: 0.25
    }),
    operations: row => [{ id: 'sent', op: 'insert', table: 'parcels', values: [{ ...row }] }],
    compared: ['tags', 'colour', 'data', 'filled', 'owner'],
    adds: { parcels: 1 }
  },
  'insert-20': inserts('20 rows in one insert', 20),
  'insert-1000': inserts('1000 rows in one insert', 1000),
  'insert-from': {
    title: 'Insert from a query',
    params: { box: integer },
    make: (caller, random) => ({ box: pickBox(caller, random).box }),
    operations: ({ box }) => [{
      id: 'added',
      op: 'insert',
      table: 'entries',
      from: { table: 'box_items', where: { box_id: { eq: box } }, order: [{ sku: 'asc' }] },
      columns: {
        box_id: box,
        sku: { $col: 'sku' },
        qty: { $col: 'qty' },
        price: { $col: 'price' }
      }
    }],
    compared: ['box_id', 'sku', 'qty', 'price', 'owner'],
    adds: { entries: 3, prices: 3 * PRICE }
  },
  update: {
    title: 'Update by key',
    params: { box: integer, label: text },
    make: (caller, random) => {
      const { box, label } = makeBox(caller, random)
      return { box, label }
    },
    operations: ({ box, label }) => [{
      id: 'changed',
      op: 'update',
      table: 'boxes',
      set: { label, changes: { $inc: 1 } },
      where: { id: { eq: box } },
      returning: ['id', 'shelf', 'label']
    }],
    compared: ['id', 'shelf', 'label'],
    proof: ['"label"', 1],
    adds: { changes: 1 }
  },
  'update-rows': {
    title: 'Update of 10 rows by key',
    params: { rows: rowsOf({ id: integer, label: text, weight: integer }) },
    make: (caller, random) => ({
      rows: boxesOf(pickShelf(caller, random)).map(id => {
        const { label, weight } = makeBox(caller, random)
        return { id, label, weight }
      })
    }),
    operations: ({ rows }) => [{
      id: 'changed',
      op: 'update',
      table: 'boxes',
      key: ['id'],
      values: rows,
      returning: boxColumns
    }],
    // `values` beside `key` takes no parameter.
    named: () => [{
      id: 'changed',
      op: 'update',
      table: 'boxes',
      from: { param: 'rows', on: { id: 'id' } },
      set: { label: { $from: 'label' }, weight: { $from: 'weight' } },
      returning: boxColumns
    }],
    compared: boxColumns,
    proof: ['"label"', 10]
  },
  upsert: {
    title: 'Upsert (`on_conflict`)',
    params: box,
    make: makeBox,
    operations: ({ box, shelf, label, weight }) => [{
      id: 'saved',
      op: 'insert',
      table: 'boxes',
      values: [{ id: box, shelf, label, weight }],
      on_conflict: {
        columns: ['id'],
        do: 'update',
        set: {
          label: { $excluded: 'label' },
          weight: { $excluded: 'weight' },
          changes: { $inc: 1 }
        }
      },
      returning: boxColumns
    }],
    compared: boxColumns,
    proof: ['"label"', 1],
    adds: { changes: 1 }
  },
  'find-or-create': {
    title: 'Find or create, half of each',
    params: box,
    // Every other caller asks for a new box.
    make: (caller, random) => ({
      ...makeBox(caller, random),
      ...caller % 2 === 0 ? {} : { box: newBox++ }
    }),
    operations: ({ box, shelf, label, weight }) => [
      {
        id: 'found',
        op: 'select',
        table: 'boxes',
        columns: boxColumns,
        where: { id: { eq: box } }
      },
      {
        id: 'created',
        op: 'insert',
        table: 'boxes',
        values: [{ id: box, shelf, label, weight }],
        when: { found: 0 },
        returning: boxColumns
      }
    ],
    compared: boxColumns,
    proof: ['"label"', 1],
    adds: { boxes: 0.5 }
  }
} as const satisfies Record<string, Word>
