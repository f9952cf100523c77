/**
 * The times of operations, computed from the arrival of the answers and the clock of the server.
 */
import t from 'tap'
import { settleTimes, type ArrivedTimes } from '../../../src/transaction/report.ts'

/** When the server began and ended operations, if it returned these times. */
type ServerTimes = ReadonlyArray<readonly [began: number, ended: number] | undefined>

/** Answers of operations that arrive together, at 150; the server's clock began at 9000. */
function arrived (server: ServerTimes, sessionSet: number): ArrivedTimes {
  return {
    begun: 100,
    sessionSet,
    operations: server.map(() => 150),
    server: server.map(times => times && { began: times[0], ended: times[1] })
  }
}

const [first, second, third] = [[9000, 9010], [9015, 9016], [9017, 9030]] as const
const all = [first, second, third]
const none = undefined

/** The session is set at a time, and there are `count` operations. */
const rows = [
  ['an operation ends when the next one begins, the last one when its answer arrives',
    all, 110, 3, 110, [125, 127, 150]],
  ['the answer of the session arrives with the others: it is the time before them',
    all, 150, 3, 120, [135, 137, 150]],
  ['the next operation failed: an operation ends when its rows are ready',
    all, 110, 4, 110, [125, 127, 140]],
  ['an operation that returned no times ends when the next one begins',
    [first, none, third], 110, 3, 110, [120, 127, 150]],
  ['or when its answer arrives', [first, none], 110, 3, 110, [120, 150]],
  ['operations without times before the first with times end when it begins',
    [none, none, second, third], 110, 4, 110, [135, 135, 137, 150]],
  ['also if the answer of the session arrives with theirs',
    [none, none, second, third], 150, 4, 135, [135, 135, 137, 150]],
  ['of two operations without times, the first ends when another one begins',
    [first, none, none, third], 110, 4, 110, [120, 127, 127, 150]],
  ['without times of the server, the times of arrival count',
    [none, none], 110, 3, 110, [150, 150]],
  ['without any answer', [], 110, 3, 110, []],
  ['the time of a single operation without times is that of its batch',
    [none], 110, 1, 100, [150]],
  ['a clock that was set back changes the order of nothing',
    [first, [3000, 3010], [3020, 3030]], 110, 3, 110, [110, 110, 150]],
  ['a clock that was set ahead', [first, [99_000, 99_010], [99_020, 99_030]], 110, 3, 100,
    [120, 140, 150]]
] as const

t.test('when operations end', async t => {
  for (const [what, server, arrival, count, sessionSet, operations] of rows) {
    const times = settleTimes(arrived(server, arrival), count)
    t.match(times, { begun: 100, sessionSet }, what)
    t.same(times.operations, operations, what)
  }
})
