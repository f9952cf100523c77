/**
 * Tests the conditions that columns have the types that the service has read: PostgreSQL refuses a
 * statement for a column of another type, and evaluates nothing for a column of the same type.
 */
import t from 'tap'
import { render, sql as write } from '../../src/fragment/fragment.ts'
import type { DatabaseError } from '../../src/errors/database-error.ts'
import { readRaised } from '../../src/sql/statement/raised-error.ts'
import {
  ColumnTypes,
  buildParsedCheck,
  columnTypesQuery,
  type Column
} from '../../src/sql/values/column-types.ts'
import { useDatabase } from '../support/database/database.ts'

const builtIn = [
  'bool', 'bytea', 'int8', 'int2', 'int4', 'text', 'json', 'float4', 'float8', 'bpchar', 'varchar',
  'date', 'time', 'timestamp', 'timestamptz', 'timetz', 'numeric', 'uuid', 'jsonb', 'name',
  '"char"', 'oid', 'inet', 'interval', 'xml', 'box', 'int2vector', 'oidvector', 'aclitem',
  'gtsvector', 'int4range', 'int4multirange'
]
/** Types without such a condition, to which a column may change. */
const others = ['whole', 'mood', 'pair']
const types = [...builtIn, ...others].flatMap(type => [type, `${type}[]`])

const table = { schema: 'public', name: 'known' }
const schema = `
  create domain whole as int4;
  create type mood as enum ('sad');
  create type pair as (a int4, b text);
  create table known (${types.map((type, i) => `c${i} ${type}`).join(', ')})`

t.test('a column of each type against the condition of each other type', async t => {
  const { sql } = await useDatabase(t, { schema })
  const [row] = await sql.unsafe(`select (${render(columnTypesQuery([table])).text})::text as text`)
  const known = new ColumnTypes()
  known.remember(row?.['text'] as string)
  const columns = types.map((type, i) => {
    return { type, column: known.lookup(table)?.get(`c${i}`) as Column }
  })
  const explain = (column: Column): Promise<string> => {
    const query = `explain (verbose, costs off) select from known where ${
      render(buildParsedCheck(column) ?? write`false`).text
    }`
    return sql.unsafe(query).then(rows => JSON.stringify(rows), (error: DatabaseError) =>
      readRaised({ ...error, message: error.message, query })?.kind ?? error.code)
  }
  let refused = 0
  for (const { type, column } of columns) {
    const isChecked = buildParsedCheck(column) !== undefined
    t.equal(isChecked, builtIn.includes(type.replace('[]', '')), type)
    if (!isChecked) continue
    t.notMatch(await explain(column), /Filter|^types|^42/, `${type} costs nothing`)
    const codes = await Promise.all(columns.filter(other => other.type !== type)
      .map(({ column: { name } }) => explain({ ...column, name })))
    // There is no such operator, or no array of arrays.
    t.strictSame(codes.filter(kind => kind !== 'types'), [], type)
    refused += codes.length
  }
  t.equal(refused, 2 * builtIn.length * (types.length - 1))
})
