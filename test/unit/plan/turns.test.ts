/** Tests that large bodies leave time to other requests, and small ones do not wait. */
import t from 'tap'
import type { Pieces } from '../../../src/json/parse.ts'
import { smallTurn, Turns } from '../../../src/plan/work.ts'

const LARGE = 1_000_000
const SMALL = 100

/** Does work that takes this long. */
function work (ms: number): number {
  const end = performance.now() + ms
  while (performance.now() < end);
  return ms
}

t.test('beside small bodies, a large one waits twice as long as the one before took', async t => {
  const turns = new Turns()
  const first = await turns.take(LARGE)
  const started = performance.now()
  t.equal(first.run(() => work(30)), 30)
  t.throws(() => first.run(() => { throw new Error(String(work(30))) }), { message: '30' })
  t.equal(await turns.take(SMALL), smallTurn)
  const small = performance.now() - started
  await turns.take(LARGE)
  const large = performance.now() - started
  t.ok(large >= 179, `${large} ms`)
  t.ok(small < large, 'a small body did not wait')
})

t.test('without small bodies, large ones do not wait', async t => {
  const turns = new Turns()
  const first = await turns.take(LARGE)
  first.run(() => work(200))
  const started = performance.now()
  let timeout = false
  const timer = setTimeout(() => { timeout = true }, 300)
  await turns.take(LARGE)
  clearTimeout(timer)
  t.notOk(timeout, `${performance.now() - started} ms`)
})

t.test('large bodies are read in their order, and each piece in a turn of its own', async t => {
  const turns = new Turns()
  const order: number[] = []
  let loop = 0
  const count = (): NodeJS.Immediate => setImmediate(() => { loop++; timer = count() })
  let timer = count()
  const loops: number[] = []
  const pieces = function * (n: number): Pieces<number> {
    loops.push(loop)
    yield
    loops.push(loop)
    yield
    loops.push(loop)
    return n
  }
  const results = await Promise.all([1, 2, 3].map(async n => {
    const turn = await turns.take(LARGE)
    order.push(n)
    return turn.finish(pieces(n))
  }))
  clearImmediate(timer)
  t.same(order, [1, 2, 3])
  t.same(results, [1, 2, 3])
  t.equal(new Set(loops).size, loops.length, loops.join())
})

t.test('too many large bodies are refused, small ones are not', async t => {
  const turns = new Turns()
  const waits = Array.from({ length: 64 }, () => turns.take(LARGE))
  await t.rejects(turns.take(LARGE), { code: 'overloaded', status: 503 })
  t.equal(await turns.take(SMALL), smallTurn)
  await Promise.all(waits)
  t.type((await turns.take(LARGE)).run, 'function')
  t.equal(smallTurn.run(() => 1), 1)
  t.equal(smallTurn.finish(function * (): Pieces<number> { yield; return 1 }()), 1)
})

t.test('a fault in a piece ends the work', async t => {
  const turn = await new Turns().take(LARGE)
  await t.rejects(
    Promise.resolve(turn.finish(function * (): Pieces<void> {
      yield
      throw new Error('second piece')
    }())),
    { message: 'second piece' }
  )
})
