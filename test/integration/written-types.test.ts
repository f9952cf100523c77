/**
 * Tests that a value is written again if DDL has changed what its text depends on, and not the type
 * of its column: the attributes of a composite, or a length, a precision or a scale. Such a change
 * must be noticed by the first statement after it, and nothing may be noticed before.
 */
import t from 'tap'
import { useCompared } from '../support/compared.ts'
import * as op from '../support/operations.ts'
import type { ServiceUnderTest } from '../support/service.ts'

/** `$T`: the name of the table, `$N`: a suffix for other names; `before` comes before the table. */
type Change = readonly [
  name: string, type: string, value: unknown, change: string, before?: string
]

const pair = 'create type pair$N as (x int, y int)'
const xy = { x: 1, y: 2 }
const swap = 'alter type pair$N drop attribute x, add attribute x int'
const retype = (type: string): string => `alter table $T alter a type ${type}`

const changes: readonly Change[] = [
  ['numeric', 'numeric(10,4)', '1.2345', retype('numeric(10,2)')],
  ['numeric without a scale', 'numeric', '1.2345', retype('numeric(10,2)')],
  ['an array of numeric', 'numeric(10,4)[]', ['1.2345'], retype('numeric(10,2)[]')],
  ['varchar with a collation', 'varchar(9) collate "C"', 'a  ', retype('varchar(1) collate "C"')],
  ['char', 'char(3)', 'a  ', retype('char(2)')],
  ['time', 'time(3)', '10:00:00.123', retype('time(0)')],
  ['timetz', 'timetz(3)', '10:00:00.123Z', retype('timetz(0)')],
  ['timestamp', 'timestamp', '2026-01-02T10:00:00.5', retype('timestamp(0)')],
  ['timestamptz', 'timestamptz(6)', '2026-01-02T10:00:00.5Z', retype('timestamptz(0)')],
  ['interval with fields', 'interval day to second', '1 day 5 s', retype('interval day to minute')],
  ['interval with a precision', 'interval(3)', '5.123 s', retype('interval(1)')],
  ['interval with both', 'interval day to second(3)', '5.123 s',
    retype('interval day to second(1)')],
  ['the order of attributes', 'pair$N', xy, swap, pair],
  ['names of attributes', 'pair$N', xy,
    `alter type pair$N rename attribute x to z; alter type pair$N rename attribute y to x;
      alter type pair$N rename attribute z to y`, pair],
  ['another attribute', 'pair$N', xy,
    'alter type pair$N drop attribute y, add attribute z int', pair],
  ['the type of an attribute', 'pair$N', { x: 1, y: '2' },
    'alter type pair$N drop attribute y, add attribute y jsonb',
    'create type pair$N as (x int, y text)'],
  ['the scale of an attribute', 'pair$N', { x: 1, y: '1.2345' },
    'alter type pair$N drop attribute y, add attribute y numeric(10,2)',
    'create type pair$N as (x int, y numeric(10,4))'],
  ['names that SQL quotes', 'pair$N', { 1: 1, r: 2 },
    'alter type pair$N drop attribute r, add attribute r int',
    String.raw`create type pair$N as ("r" int, "1" int, "b\""
      " int)`],
  ['an array', 'pair$N[]', [xy], swap, pair],
  ['a domain', 'of$N', xy, swap, `${pair}; create domain of$N as pair$N`],
  ['a domain of an array of a domain', 'all$N', [xy], swap,
    `${pair}; create domain one$N as pair$N; create domain all$N as one$N[]`],
  ['a composite in others', 'more$N', { o: [{ p: xy }] }, swap,
    `${pair}; create type other$N as (p pair$N, q pair$N);
      create type more$N as (o other$N[])`],
  ['a type of another schema', 'two.pair$N', xy,
    'alter type two.pair$N drop attribute x, add attribute x int',
    'create type two.pair$N as (x int, y int)'],
  ['a range', 'range$N', [xy, { x: 3, y: 4 }], swap,
    `${pair}; create type range$N as range (subtype = pair$N)`],
  ['a domain with a scale', 'price$N', { p: xy, c: ['1.25'] }, swap,
    `${pair}; create domain cents$N as numeric(10,2);
      create type price$N as (p pair$N, c cents$N[])`]
]

/** More columns than the conditions read one by one. */
const others = Array.from({ length: 60 }, (_, i) => `c${i}`)

const some = { returning: ['a'] }
const words: Readonly<Record<string, (table: string, a: unknown) => object>> = {
  insert: (table, a) => op.insert('o', table, [{ id: 1, a }], some),
  'insert of many rows': (table, a) =>
    op.insert('o', table, Array.from({ length: 20 }, (_, id) => ({ id, a })), some),
  'insert of many columns': (table, a) => op.insert('o', table, [
    { id: 1, a, ...Object.fromEntries(others.map(name => [name, '0.5'])) }
  ], some),
  'a condition': (table, a) => op.select('o', table, {
    columns: ['a'], where: { a: { eq: { $value: a } } }
  })
}

/** What a client sees of a dry run, and the retries of all batches so far. */
async function send (service: ServiceUnderTest, operation: object): Promise<{
  readonly answer: unknown
  readonly retries: string
}> {
  const { status, body } = await service.post([operation], { headers: { prefer: 'tx=rollback' } })
  const { message } = body.error ?? {}
  const metrics = await fetch(`${service.adminUrl}/metrics`).then(response => response.text())
  const retries = [...metrics.matchAll(/^service_txn_retry_count.*/gm)].join()
  return { answer: { status, message, data: body.data }, retries }
}

t.test('the first statement after a change writes its values again', async t => {
  const { a, b } = await useCompared(t, '')
  let count = 0
  for (const [name, type, value, change, before = ''] of changes) {
    for (const [word, build] of Object.entries(words)) {
      const number = count++
      const run = async (text: string): Promise<void> => {
        await a.database.sql.unsafe(
          text.replaceAll('$T', `t${number}`).replaceAll('$N', `_${number}`)
        )
      }
      await run(`${before}; create table $T (id int primary key, a ${type},
        ${others.map(name => `${name} numeric(9,1)`).join(', ')})`)
      const operation = build(`t${number}`, value)
      const first = await send(a, operation)
      for (let i = 0; i < 3; i++) {
        t.strictSame(await send(a, operation), first, `${name}, ${word}: nothing has changed`)
      }
      t.match(first, { answer: { status: 200 } }, `${name}, ${word}`)
      await run(change)
      const [changed, fresh] = [await send(a, operation), await send(b, operation)]
      t.strictSame(changed.answer, fresh.answer, `${name}, ${word}`)
    }
  }
})
