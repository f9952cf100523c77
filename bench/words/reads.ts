/**
 * Reads, and the call of a function. They add nothing, so every response must contain their rows.
 */
import {
  BOXES_PER_SHELF,
  CALLERS,
  decimal,
  integer,
  pick,
  pickShelf,
  rowsOf,
  text,
  type Random,
  type Word
} from './word.ts'

/** As in reset_tables() of bench/schema.sql. */
const ITEMS_PER_BOX = 3
const MIN_QTY = 6
/** The number of different statements. */
const SHAPES = 100

const shelf: Pick<Word, 'params' | 'make'> = {
  params: { shelf: integer },
  make: (caller, random) => ({ shelf: pickShelf(caller, random) })
}

/** The number of an invoice of the caller, who owns every hundredth. */
const pickInvoice = (caller: number, random: Random): number =>
  caller + CALLERS * (1 + pick(99, random))

export const reads = {
  read: {
    title: 'Select by key',
    params: { number: integer },
    make: (caller, random) => ({ number: pickInvoice(caller, random) }),
    operations: ({ number }) => [
      { id: 'found', op: 'select', table: 'invoices', where: { number: { eq: number } } }
    ],
    compared: ['number', 'note', 'owner'],
    proof: ['"earlier"', 1]
  },
  shapes: {
    title: 'Select by key, 100 different statements',
    params: { number: integer, shape: integer },
    make: (caller, random) => ({
      number: pickInvoice(caller, random),
      shape: pick(SHAPES, random)
    }),
    operations: ({ number, shape }) => [{
      id: 'found',
      op: 'select',
      table: 'invoices',
      columns: ['id', 'number', 'note', 'owner', { column: 'created_at', as: `at_${shape}` }],
      where: { number: { eq: number } }
    }],
    named: ({ number }) => [{
      id: 'found',
      op: 'select',
      table: 'invoices',
      where: { number: { eq: number } }
    }],
    compared: ['number', 'note', 'owner'],
    proof: ['"earlier"', 1]
  },
  list: {
    title: 'Select by the list of an earlier select',
    ...shelf,
    operations: ({ shelf }) => [
      {
        id: 'boxes',
        op: 'select',
        table: 'boxes',
        columns: ['id'],
        where: { shelf: { eq: shelf } }
      },
      {
        id: 'items',
        op: 'select',
        table: 'box_items',
        columns: ['box_id', 'sku', 'qty'],
        where: { box_id: { in: '$boxes.*.id' } },
        order: [{ box_id: 'asc' }, { sku: 'asc' }]
      }
    ],
    compared: ['box_id', 'sku', 'qty'],
    proof: ['"box_id"', BOXES_PER_SHELF * ITEMS_PER_BOX]
  },
  nested: {
    title: 'Nested read (`with`)',
    ...shelf,
    operations: ({ shelf }) => [{
      id: 'boxes',
      op: 'select',
      table: 'boxes',
      columns: ['id', 'shelf'],
      where: { shelf: { eq: shelf } },
      order: [{ id: 'asc' }],
      with: {
        items: {
          table: 'box_items',
          on: { box_id: 'id' },
          columns: ['sku', 'qty'],
          order: [{ sku: 'asc' }]
        }
      }
    }],
    compared: ['id', 'shelf', 'items'],
    proof: ['"sku"', BOXES_PER_SHELF * ITEMS_PER_BOX]
  },
  exists: {
    title: 'Filter by another table (`exists`)',
    params: { shelf: integer, qty: integer },
    make: (caller, random) => ({ shelf: pickShelf(caller, random), qty: MIN_QTY }),
    operations: ({ shelf, qty }) => [{
      id: 'boxes',
      op: 'select',
      table: 'boxes',
      columns: ['id', 'shelf'],
      where: {
        shelf: { eq: shelf },
        exists: { table: 'box_items', on: { box_id: 'id' }, where: { qty: { gte: qty } } }
      },
      order: [{ id: 'asc' }]
    }],
    compared: ['id', 'shelf'],
    // The quantities of the boxes on a shelf are 1 to 10.
    proof: ['"shelf"', BOXES_PER_SHELF + 1 - MIN_QTY]
  },
  call: {
    title: 'Call of a function',
    params: {
      prefix: text,
      discount: decimal,
      items: rowsOf({ sku: text, qty: integer, price: decimal })
    },
    make: (_caller, random) => ({
      prefix: `shop ${pick(1000, random)} `,
      discount: 0.1,
      items: ['apple', 'pear', 'quince'].map(sku => ({ sku, qty: 1 + pick(9, random), price: 1.5 }))
    }),
    operations: args => [{ id: 'quoted', op: 'call', function: 'quote', args }],
    compared: ['article', 'qty', 'total'],
    proof: ['"article"', 3]
  }
} as const satisfies Record<string, Word>
