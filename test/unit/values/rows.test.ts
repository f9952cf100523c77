/**
 * Tests that a statement takes the rows of an upload only if they were written for its types.
 */
import t from 'tap'
import { renderSlots } from '../../../src/fragment/fragment.ts'
import { isRowsSlot, rowsSlot, writeSlot, type RowsSlot } from '../../../src/sql/statement/slot.ts'
import { distinctMembers, listOfRows, type RowMembers } from '../../../src/values/rows.ts'
import { builtIn } from '../../support/built-in-types.ts'

const membersOf = (types: Readonly<Record<string, readonly [number, number]>>): RowMembers =>
  Object.entries(types).map(([name, [oid, modifier]]) =>
    ({ name, column: name, type: builtIn(oid, modifier) }))

const [INT, NUMERIC] = [23, 1700]
const SCALE_2 = (10 << 16) + 2 + 4
const text = [Buffer.from('[{"a":1}]')]
const members = membersOf({ a: [INT, -1], b: [NUMERIC, SCALE_2] })
const uploaded = [listOfRows([{ members: membersOf({ a: [NUMERIC, -1] }), text: [] }, {
  members, text
}])]

function slotOf (members: RowMembers): RowsSlot {
  const { parameters: [slot] } = renderSlots(rowsSlot({ position: 0 }, members))
  if (!isRowsSlot(slot)) throw new Error('no slot')
  return slot
}

t.test('rows of an upload are those for the types of the statement', async t => {
  for (const needed of [members, members.slice(0, 1), membersOf({ b: [NUMERIC, SCALE_2] })]) {
    t.equal(writeSlot(slotOf(needed), uploaded, []), text)
  }
})

t.test('a type that has changed since is a conflict', async t => {
  for (const changed of [membersOf({ b: [NUMERIC, -1] }), membersOf({ c: [INT, -1] })]) {
    t.throws(() => writeSlot(slotOf(changed), uploaded, []), {
      code: 'serialization_failure',
      message: 'The columns of the batch were changed while its rows arrived.',
      details: { retryable: true }
    })
  }
})

t.test('equal rows are written once', async t => {
  const other = membersOf({ a: [NUMERIC, SCALE_2] })
  const again = membersOf({ b: [NUMERIC, SCALE_2] })
  t.strictSame(distinctMembers([members, members.slice(0, 1), other, again]), [members, other])
})
