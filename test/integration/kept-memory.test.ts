/**
 * Tests that requests leave no memory behind: neither their values, nor statements that do not
 * recur. The service runs in this process.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { collectGarbage } from '../support/garbage.ts'
import { useService } from '../support/service.ts'

const MIB = 1024 * 1024

/** The heap and buffers after a garbage collection, in bytes. */
function usedMemory (): number {
  collectGarbage()
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const schema = `
  create table items (id int, name text);
  create unique index on items (id) where name = 'x';
  grant all on items to oneflight_user;
`

/** Each request has another text, where SQL takes no parameter. */
const constant = (n: number): object => op.insert('i', 'items', [{ id: 1 }], {
  on_conflict: {
    columns: ['id'], index_where: { name: { eq: `${n} ${'y'.repeat(100_000)}` } }, do: 'nothing'
  }
})

/** The object needs a second attempt, with value checks. The names make the text long. */
const checked = (n: number): object => op.update('u', 'items', {
  set: { name: { a: 1 } },
  all: true,
  returning: Array.from({ length: 1000 }, (_, i) => ({
    column: 'id', as: `${'x'.repeat(50)}${n}_${i}`
  }))
})

const cases: ReadonlyArray<
  readonly [name: string, batch: (n: number) => object, requests: number, status: number]
> = [
  ['constants of requests', constant, 100, 400],
  ['long statements that check values', checked, 100, 422]
]

for (const [name, batch, requests, status] of cases) {
  t.test(`${name} are not kept`, { timeout: 120_000 }, async t => {
    const service = await useService(t, { schema, env: { LOG_LEVEL: 'silent', POOL_SIZE: '1' } })
    const post = async (from: number, to: number): Promise<void> => {
      for (let n = from; n < to; n++) {
        const answer = await service.post([batch(n)])
        if (answer.status !== status) throw new Error(answer.text)
      }
    }
    await post(0, 20)
    const before = usedMemory()
    await post(20, 20 + requests)
    const grown = (usedMemory() - before) / MIB
    t.ok(grown < 6, `${grown.toFixed(1)} MiB more`)
  })
}
