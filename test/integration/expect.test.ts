/**
 * Tests `expect`: if an operation has another number of rows, it fails with 412 and rolls back. The
 * model expects numbers of rows of every kind of operation.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'
import { failed } from '../support/shorthand.ts'

const schema = `
  create table t (id int primary key);
  create table other (id int);
  create table quiet (id int);
  create function swallow() returns trigger language plpgsql as $$ begin if new.id > 0 then
    return new; end if; return null; end $$;
  create trigger quiet before insert or update on quiet for each row execute function swallow();
  insert into t select generate_series(1, 4);
  insert into quiet values (5);
`
const service = await useService(t, { schema })
const { sql } = service.database
/** The response if operation `o` has another number of rows. */
const refused = (index: number): object =>
  failed(412, 'expectation_failed', { committed: false, op: 'o', index, path: ['expect'] })
const select = { op: 'select', table: 't', where: { id: { lte: 3 } } }

/** Operations of which a trigger suppresses rows, and the number of the others. */
const counted: ReadonlyArray<readonly [operation: object, count: number]> = [
  [{ op: 'insert', table: 'quiet', values: [{ id: 1 }, { id: -1 }] }, 1],
  [{ op: 'update', table: 'quiet', set: { id: -1 }, all: true }, 0]
]

t.test('rows that a trigger suppresses are not counted', async t => {
  for (const [operation, count] of counted) {
    const good = [count, { min: count }, { max: count }, { min: count, max: count }]
    const bad = [
      count + 1,
      { min: count + 1 },
      ...count > 0 ? [count - 1, 0, { max: count - 1 }, { min: 0, max: count - 1 }] : []
    ]
    for (const expect of good) {
      const { status, text } = await service.post([{ id: 'o', ...operation, expect }], {
        headers: { prefer: 'tx=rollback' }
      })
      t.equal(status, 200, encodeURI(`${JSON.stringify(operation)} ${text}`))
    }
    for (const expect of bad) {
      const answer = await service.post([
        op.insert('before', 'other', [{ id: 1 }]),
        { id: 'o', ...operation, expect },
        op.insert('after', 'other', [{ id: 2 }])
      ])
      t.match(answer, refused(1), encodeURI(`${JSON.stringify(operation)} ${answer.text}`))
    }
    t.same(await sql`select * from quiet`, [{ id: 5 }])
    t.same(await sql`select * from other`, [])
  }
})

t.test('the error states the expected and the actual number and has no SQLSTATE', async t => {
  const rows: ReadonlyArray<readonly [expect: unknown, pattern: RegExp]> = [
    [1, /\b1\b/],
    [{ min: 4 }, /\b4\b/],
    [{ max: 2 }, /\b2\b/],
    [{ min: 4, max: 5 }, /\b4\b.*\b5\b/]
  ]
  for (const [expect, pattern] of rows) {
    const { body } = await service.post([{ id: 'o', ...select, expect }])
    t.match(body.error.message, pattern)
    t.match(body.error.message, /\b3\b/)
    t.equal(body.error.sqlstate, undefined)
    t.not(body.error.retryable, true)
  }
})

t.test('expect is checked before references to the operation are resolved', async t => {
  const reader = op.insert('r', 'other', [{ id: '$o.0.id' }])
  const none = { ...select, where: { id: { eq: -1 } } }
  t.match(await service.post([{ id: 'o', ...none, expect: 1 }, reader]), refused(0))
  const missing = await service.post([{ id: 'o', ...none, expect: 0 }, reader])
  const expected = failed(422, 'reference_row_missing', { op: 'r', path: ['values', 0, 'id'] })
  t.match(missing, expected)
  const suppressed = op.insert('o', 'quiet', [{ id: -1 }])
  t.match(await service.post([suppressed, reader]), expected, 'of a row that a trigger suppresses')
})
