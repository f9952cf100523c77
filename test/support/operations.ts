/**
 * Short forms for tests of the language: the operations of a batch, names that need quotes in SQL,
 * and the rows that a query returns.
 */
import type { Sql } from 'postgres'

type Operation = Readonly<Record<string, unknown>>

export const select = (id: string, table: string, members: object = {}): Operation =>
  ({ id, op: 'select', table, ...members })
export const insert = (
  id: string,
  table: string,
  values: unknown,
  members: object = {}
): Operation => ({ id, op: 'insert', table, values, ...members })
export const update = (id: string, table: string, members: object): Operation =>
  ({ id, op: 'update', table, ...members })
const remove = (id: string, table: string, members: object): Operation =>
  ({ id, op: 'delete', table, ...members })
export { remove as delete }
export const call = (id: string, name: string, args: unknown, members: object = {}): Operation =>
  ({ id, op: 'call', function: name, args, ...members })

/** The parameters of a named batch: rows of these members, in the parameter `name`. */
export const rowsOf = (properties: object, name = 'rows') => ({
  type: 'object',
  properties: {
    [name]: { type: 'array', items: { type: 'object', properties, additionalProperties: false } }
  },
  required: [name]
})

/** Names of tables and columns: of SQL, of JavaScript, of the generated SQL, and of any letters. */
export const strangeNames = [
  '__proto__', 'constructor', 'toString', 'hasOwnProperty', 'rawJSON', 'row', 'rows', 'r', 't',
  'x', 'j', 's', 'o', 'n', 'k', 'g0', 'element', 'position', 'piece', 'source', 'key', 'cut',
  'found', 'placed', 'ordinality', 'excluded', 'count', 'json_agg', 'json_populate_record',
  'order', 'select', 'default', 'user', 'json', 'text', 'NULL', '?column?', 'ctid2', 'Id', 'ID',
  'UPPER', 'a"b', "a'b", "it's", '\\', '"', '""', 'a.b', '.', ' ', ' a ', 'with space', 'a,b',
  'a\nb', '\n', 'é😀', 'ä€😀', '😀'.repeat(15), 'é'.repeat(31), 'x'.repeat(63), '0', '1', '42',
  '**', '$1', '$x', '$src.0.id', '%s', '--', ';--', '/*', '*/', ';', ')', '{', '{}', 'U&"\\0061"',
  'id'
]

export const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`

/**
 * Returns the rows of a query as JSON text, in the formats of the service. `before` is a WITH
 * clause.
 */
export async function renderRows (sql: Sql, query: string, before = ''): Promise<string> {
  return sql.begin(async sql => {
    await sql`set local timezone = 'UTC'`
    await sql`set local datestyle = 'ISO'`
    await sql`set local intervalstyle = 'postgres'`
    const [row] = await sql.unsafe<Array<{ j: string }>>(
      `${before} select coalesce(json_agg(q), '[]')::text as j from (${query}) q`
    )
    return row?.j ?? ''
  })
}
