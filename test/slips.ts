/**
 * Lists common mistakes with their answers and repairs. `npm run docs` generates the table of
 * docs/reference/errors.md from this list, and test/integration/slips.test.ts sends every request
 * of it to the sample shop.
 */

export interface Slip {
  /** The batch as JSON text. `<here>` is replaced by the mistake or by its repair. */
  readonly batch?: string
  readonly mistake: string
  readonly repair: string
  readonly status: number
  /** The code of the error, or of its only issue. */
  readonly code: string
  /** The path of the issue, if there is one. */
  readonly path?: ReadonlyArray<string | number>
  readonly message: string
}

/** The batch of a slip that has none of its own: a select from the stock. */
const select = '[{"id": "a", "op": "select", "table": "stock", <here>}]'

const orders = '"op": "select", "table": "orders"'
const items = '"op": "select", "table": "order_items"'
const itemsOfOrder = '"where": {"order_id": {"in": "$order.*.id"}}'

/** Their status is 422 if they have none of their own. */
const list: ReadonlyArray<Omit<Slip, 'status'> & Partial<Slip>> = [
  {
    mistake: '"where": {"sku": {"eq": "apple"}, "limit": 1',
    repair: '"where": {"sku": {"eq": "apple"}}, "limit": 1',
    status: 400,
    code: 'body_invalid',
    message: 'The body is not valid JSON: unexpected character at line 1, column 93.'
  },
  {
    batch: '[{"id": "a", <here>}]',
    mistake: '"table": "stock"',
    repair: '"op": "select", "table": "stock"',
    code: 'member_missing',
    path: ['op'],
    message: '"op" is required: one of insert, update, delete, select, call.'
  },
  {
    batch: '[{"id": "a", "op": "insert", "table": "jobs", "values": [{"task": {}}], <here>}]',
    mistake: '"returning": "*"',
    repair: '"returning": ["*"]',
    code: 'member_invalid',
    path: ['returning'],
    message: '"returning" must be an array of columns, for example ["*"].'
  },
  {
    mistake: '"where": {"sku": "apple"}',
    repair: '"where": {"sku": {"eq": "apple"}}',
    code: 'operand_invalid',
    path: ['where', 'sku'],
    message: '"sku" must be an object of operators, for example {"sku": {"eq": "apple"}}.'
  },
  {
    mistake: '"where": {"sku": {"equals": "apple"}}',
    repair: '"where": {"sku": {"eq": "apple"}}',
    code: 'operator_unknown',
    path: ['where', 'sku', 'equals'],
    message: 'Unknown operator "equals". Did you mean "eq"?'
  },
  {
    mistake: '"where": {"sku": {"any": ["apple", "pear"]}}',
    repair: '"where": {"sku": {"in": ["apple", "pear"]}}',
    code: 'operator_unknown',
    path: ['where', 'sku', 'any'],
    message: 'Unknown operator "any". Did you mean "in"?'
  },
  ...([
    ['"where": {"sku": {"contains": "app"}}', '"where": {"sku": {"ilike": "%app%"}}',
      'contains', 'Write {"ilike": "%apple%"} for a part of a text, or {"cs": ["apple"]} for ' +
      'elements of an array or members of jsonb.'],
    ['"where": {"sku": {"startsWith": "app"}}', '"where": {"sku": {"like": "app%"}}',
      'startsWith', 'Write {"like": "apple%"}.'],
    ['"where": {"sku": {"not.eq": "apple"}}', '"where": {"sku": {"not": {"eq": "apple"}}}',
      'not.eq', 'Write {"not": {"eq": …}}.']
  ] as const).map(([mistake, repair, name, advice]) => ({
    mistake,
    repair,
    code: 'operator_unknown',
    path: ['where', 'sku', name],
    message: `Unknown operator "${name}". ${advice}`
  })),
  {
    batch: '[{"id": "a", "op": "select", <here>}]',
    mistake: '"table": "stock", "schema": "public"',
    repair: '"table": "public.stock"',
    code: 'member_unknown',
    path: ['schema'],
    message: 'Unknown member "schema". Write the schema before the table: ' +
      '"table": "public.stock".'
  },
  {
    mistake: '"limit": "1"',
    repair: '"limit": 1',
    code: 'member_invalid',
    path: ['limit'],
    message:
      '"limit" must be an integer from 0 to 9007199254740991, written in digits without quotes.'
  },
  {
    batch: '[{"id": "a", "op": "update", "table": "jobs", <here>}]',
    mistake: '"set": {"attempts": 0}',
    repair: '"set": {"attempts": 0}, "where": {"id": {"eq": 1}}',
    code: 'member_missing',
    path: ['where'],
    message: '"where" is required, for example {"id": {"eq": 1}}; to affect every row, ' +
      'use "all": true.'
  },
  {
    batch: '[{"id": "a", "op": "update", "table": "jobs", <here>, "where": {"id": {"eq": 1}}}]',
    mistake: '"values": {"attempts": 0}',
    repair: '"set": {"attempts": 0}',
    code: 'member_missing',
    path: ['set'],
    message: '"set" is required. "values" works only together with "key".'
  },
  {
    mistake: '"order": "sku"',
    repair: '"order": [{"sku": "asc"}]',
    code: 'member_invalid',
    path: ['order'],
    message: '"order" must be an array of objects, for example [{"sku": "asc"}].'
  },
  {
    mistake: '"where": {"skuu": {"eq": "apple"}}',
    repair: '"where": {"sku": {"eq": "apple"}}',
    status: 400,
    code: 'undefined_column',
    path: ['where', 'skuu'],
    message: 'Table "stock" has no column "skuu". Did you mean "sku"?'
  },
  {
    batch: '[{"id": "a", "op": "select", <here>}]',
    mistake: '"table": "stocks"',
    repair: '"table": "stock"',
    status: 404,
    code: 'undefined_table',
    path: ['table'],
    message: 'Table "stocks" does not exist in schema "public". Did you mean "stock"?'
  },
  {
    mistake: '"where": {"qty": {"like": "1%"}}',
    repair: '"where": {"qty": {"between": [10, 19]}}',
    status: 400,
    code: 'undefined_function',
    path: ['where', 'qty', 'like'],
    message: '"like" does not work with column "qty": operator does not exist: integer ~~ ' +
      'unknown. A pattern matches only text; use "eq", "in" or "between" for other types.'
  },
  {
    batch: '[{"id": "a", "op": "insert", "table": "jobs", <here>}]',
    mistake: '"values": [{"task": {}, "attempts": "two"}]',
    repair: '"values": [{"task": {}, "attempts": 2}]',
    status: 400,
    code: 'invalid_text_representation',
    path: ['values', 0, 'attempts'],
    message: 'Row 0 of values, column "attempts": invalid input syntax for type integer: "…"'
  },
  {
    batch: '[{"id": "a", "op": "insert", "table": "jobs", <here>}]',
    mistake: '"values": [{"task": {}, "started_at": {"$now": true}}]',
    repair: '"values": [{"task": {}, "started_at": "now"}]',
    code: 'value_invalid',
    path: ['values', 0, 'started_at'],
    message: 'Row 0 of values, column "started_at": the type timestamp with time zone takes one ' +
      'value, not an array or an object. The modifier $now works only in "set"; "values" takes ' +
      'the value itself, such as "now".'
  },
  {
    batch: '[{"id": "a", "op": "update", "table": "accounts", ' +
      '"where": {"name": {"eq": "till"}}, <here>}]',
    mistake: '"set": {"balance": {"$dec": 0.125}}',
    repair: '"set": {"balance": {"$dec": 0.13}}',
    code: 'value_invalid',
    path: ['set', 'balance', '$dec'],
    message: 'Column "balance": numeric(12,2) holds 2 digits after the point.'
  },
  {
    batch: `[{"id": "order", ${orders}}, {"id": "items", ${items}, <here>}]`,
    mistake: '"where": {"order_id": {"in": "$ordr.*.id"}}',
    repair: '"where": {"order_id": {"in": "$order.*.id"}}',
    code: 'reference_unknown',
    path: ['where', 'order_id', 'in'],
    message: 'Unknown operation "ordr". Earlier operations: order. To send the string itself, ' +
      'double its first $.'
  },
  {
    batch: `[{"id": "order", ${orders}}, {"id": "items", ${items}, <here>}]`,
    mistake: '"where": {"order_id": {"eq": "$order[0].id"}}',
    repair: '"where": {"order_id": {"eq": "$order.0.id"}}',
    code: 'reference_malformed',
    path: ['where', 'order_id', 'eq'],
    message: 'A reference has no brackets and no braces: write "$order.0.id". To send the string ' +
      'itself, double its first $.'
  },
  {
    batch: '[<here>]',
    mistake: `{"id": "items", ${items}, ${itemsOfOrder}}, {"id": "order", ${orders}}`,
    repair: `{"id": "order", ${orders}}, {"id": "items", ${items}, ${itemsOfOrder}}`,
    code: 'reference_unknown',
    path: ['where', 'order_id', 'in'],
    message: 'Operation "order" comes later in the batch; move it before this operation. ' +
      'To send the string itself, double its first $.'
  },
  {
    batch: '[{"id": "a", "table": "tags", "values": [{"name": "new"}], <here>}]',
    mistake: '"op": "upsert"',
    repair: '"op": "insert", "on_conflict": {"columns": ["owner", "name"], "do": "nothing"}',
    code: 'op_unknown',
    path: ['op'],
    message: '"op" must be one of insert, update, delete, select, call. An upsert is an "insert" ' +
      'with "on_conflict": {"columns": ["id"], "do": "update"}.'
  },
  {
    mistake: '"columns": ["count(*)"]',
    repair: '"columns": [{"fn": "count"}]',
    status: 400,
    code: 'undefined_column',
    path: ['columns', 0],
    message: 'Table "stock" has no column "count(*)". An aggregate is an object such as ' +
      '{"fn": "count"}.'
  },
  {
    batch: `[{"id": "a", ${orders}, <here>}]`,
    mistake: '"lock": "nowait"',
    repair: '"lock": {"mode": "update", "wait": "nowait"}',
    code: 'member_invalid',
    path: ['lock'],
    message: '"lock" must be "update", "no_key_update", "share", "key_share" or an object such ' +
      'as {"mode": "update", "wait": "nowait"}.'
  },
  {
    batch: '[{"id": "a", "op": "call", "function": "order_total", <here>}]',
    mistake: '"args": [1]',
    repair: '"args": {"id": 1}',
    code: 'member_invalid',
    path: ['args'],
    message: '"args" must be an object with the names of the parameters, for example {"id": 1}.'
  }
]

export const slips: readonly Slip[] = list.map(slip => ({ status: 422, ...slip }))

/** Returns the request body of a slip with its mistake or its repair. */
export function bodyOf ({ batch = select }: Slip, part: string): string {
  return batch.replace('<here>', () => part)
}
