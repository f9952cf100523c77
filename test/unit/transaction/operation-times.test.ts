/**
 * The times of operations, computed from the arrival of the answers and the clock of the server.
 */
import t from 'tap'
import { settleTimes, type ArrivedTimes } from '../../../src/transaction/report.ts'

/** Answers of operations that arrive together, at 150; the server's clock began at 9000. */
function arrived (
  server: ReadonlyArray<readonly [began: number, ended: number] | undefined>,
  sessionSet: number
): ArrivedTimes {
  return {
    begun: 100,
    sessionSet,
    operations: server.map(() => 150),
    server: server.map(times => times && { began: times[0], ended: times[1] })
  }
}

const three = [[9000, 9010], [9015, 9016], [9017, 9030]] as const

t.test('an operation ends when the next one begins, the last one when its answer arrives', t => {
  const rows = [
    ['the answer of the session arrives first', 110, 110, [125, 127, 150]],
    ['it arrives with the others, and is the time before them', 150, 120, [135, 137, 150]]
  ] as const
  for (const [name, arrival, sessionSet, operations] of rows) {
    t.same(settleTimes(arrived(three, arrival), 3), { begun: 100, sessionSet, operations }, name)
  }
  t.end()
})

t.test('if the next operation failed, an operation ends when its rows are ready', t => {
  t.same(settleTimes(arrived(three, 110), 4).operations, [125, 127, 140])
  t.end()
})

t.test('an operation that returned no times ends when the next one begins', t => {
  t.same(settleTimes(arrived([three[0], undefined, three[2]], 110), 3).operations, [120, 127, 150])
  t.same(settleTimes(arrived([three[0], undefined], 110), 3).operations, [120, 150])
  t.end()
})

t.test('operations without times before the first with times end when it begins', t => {
  const times = [undefined, undefined, three[1], three[2]]
  t.same(settleTimes(arrived(times, 110), 4), {
    begun: 100,
    sessionSet: 110,
    operations: [135, 135, 137, 150]
  })
  t.same(settleTimes(arrived(times, 150), 4), {
    begun: 100,
    sessionSet: 135,
    operations: [135, 135, 137, 150]
  })
  t.end()
})

t.test('of two operations without times, the first ends when another one begins', t => {
  const times = arrived([three[0], undefined, undefined, three[2]], 110)
  t.same(settleTimes(times, 4).operations, [120, 127, 127, 150])
  t.end()
})

t.test('without times of the server, the times of arrival count', t => {
  for (const times of [arrived([undefined, undefined], 110), arrived([], 110)]) {
    t.equal(settleTimes(times, 3), times)
  }
  t.end()
})

t.test('the time of a single operation without times is that of its batch', t => {
  const times = arrived([undefined], 110)
  t.same(settleTimes(times, 1), { ...times, sessionSet: 100 })
  t.end()
})

t.test('a clock that was set changes the order of nothing', t => {
  const back = [[9000, 9010], [3000, 3010], [3020, 3030]] as const
  t.same(settleTimes(arrived(back, 110), 3), {
    begun: 100,
    sessionSet: 110,
    operations: [110, 110, 150]
  })
  const ahead = [[9000, 9010], [99_000, 99_010], [99_020, 99_030]] as const
  t.same(settleTimes(arrived(ahead, 110), 3), {
    begun: 100,
    sessionSet: 100,
    operations: [120, 140, 150]
  })
  t.end()
})
