/**
 * Measures the cost of one operation in batches of different sizes, and of one row in operations of
 * different sizes. One client sends one batch after the other.
 */
import { onStage } from '../../scripts/dev/stage.ts'
import { useClient } from '../client.ts'
import { contenders, useServer } from '../contenders.ts'
import { resetTables, type Database } from '../database.ts'
import type { Cost } from '../record.ts'

/** Creates batches of several sizes. `table` receives their rows. */
interface Scale {
  readonly sizes: readonly number[]
  readonly table: string
  readonly body: (size: number) => unknown
}

export const scales = {
  perOperation: {
    sizes: [1, 2, 5, 10, 20, 50, 100],
    table: 'customers',
    body: size =>
      Array.from(
        { length: size },
        (_, i) => ({
          id: `o${i}`,
          op: 'insert',
          table: 'customers',
          values: [{ name: 'Corner Shop' }]
        })
      )
  },
  perRow: {
    sizes: [1, 10, 100, 1000, 10_000],
    table: 'readings',
    body: size => [{
      id: 'in',
      op: 'insert',
      table: 'readings',
      values: Array.from(
        { length: size },
        (_, id) => ({ id, sensor: 'a', value: id / 8, taken_at: '2026-01-01T00:00:00Z' })
      )
    }]
  }
} as const satisfies Record<string, Scale>

/** Measures the ms per operation or row at each size, in turns. */
export function measureCost (
  database: Database,
  { sizes, table, body }: Scale,
  { slices, seconds }: { readonly slices: number, readonly seconds: number }
): Promise<readonly Cost[]> {
  return onStage(async stage => {
    await resetTables(database.sql)
    const { url } = await useServer(stage, contenders.oneflight, {
      databaseUrl: database.url,
      connections: 1,
      env: { MAX_BODY_BYTES: String(16 * 1024 * 1024) }
    })
    const send = useClient(stage, url)
    const count = async (): Promise<number> =>
      Number((await database.sql`select count(*) from ${database.sql(table)}`)[0]?.['count'])
    const texts = sizes.map(size => JSON.stringify(body(size)))
    /** Sends a batch repeatedly, at least once, and returns the ms per unit. */
    const measure = async (text: string, size: number, seconds: number): Promise<number> => {
      const before = await count()
      const start = performance.now()
      let batches = 0
      for (; batches === 0 || performance.now() - start < seconds * 1000; batches++) {
        await send(text)
      }
      const ms = (performance.now() - start) / batches
      const made = await count() - before
      if (made !== batches * size) {
        throw new Error(`${batches} batches of ${size} made ${made} rows in ${table}`)
      }
      return ms
    }
    const ms: number[][] = sizes.map(() => [])
    // The first turn is the warm-up.
    for (let turn = 0; turn <= slices; turn++) {
      for (const [i, size] of sizes.entries()) {
        const taken = await measure(texts[i] as string, size, seconds) / size
        if (turn > 0) ms[i]?.push(taken)
      }
    }
    return sizes.map((size, i) => ({ size, ms: ms[i] as number[] }))
  })
}
