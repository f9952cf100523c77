/**
 * Clients that write pairs of rows without pause and record the responses, and an audit that
 * compares the responses with the database.
 */
import type { Sql } from 'postgres'
import type { Test } from 'tap'
import type { Answer, ServiceUnderTest } from './service.ts'

/** A batch inserts into `left_side` first and `right_side` last, with about 4 ms in between. */
export const ledgerSchema = `
  create table left_side (id int primary key);
  create table right_side (id int primary key);
  create view pause as select pg_sleep(0.004)::text as slept;
  grant all on all tables in schema public to oneflight_user;`

export const pair = (id: number): object[] => [
  { id: 'l', op: 'insert', table: 'left_side', values: [{ id }] },
  { id: 'p', op: 'select', table: 'pause' },
  { id: 'r', op: 'insert', table: 'right_side', values: [{ id: '$l.0.id' }] }
]

export interface Load {
  /** The responses so far, by the number of the pair. */
  readonly answers: ReadonlyMap<number, Answer>
  /** Stops the load. Resolves when all requests are answered. */
  stop(): Promise<void>
}

/** Starts `clients` clients that post one pair after the other. */
export function startLoad (service: ServiceUnderTest, clients: number): Load {
  const answers = new Map<number, Answer>()
  let next = 0
  const end = new AbortController()
  const work = async (): Promise<void> => {
    while (!end.signal.aborted) {
      const id = next++
      answers.set(id, await service.post(pair(id)))
    }
  }
  const done = Promise.all(Array.from({ length: clients }, work))
  return {
    answers,
    async stop () {
      end.abort()
      await done
    }
  }
}

/**
 * Asserts that no batch is partially applied, that every batch with status 200 is applied and that
 * no batch with `committed: false` is. Returns the number of responses by code.
 */
export async function audit (
  t: Test,
  sql: Sql,
  { answers }: Load
): Promise<Record<string, number>> {
  const read = async (side: string): Promise<Set<number>> =>
    new Set((await sql.unsafe(`select id from ${side}`)).map(({ id }) => id as number))
  const left = await read('left_side')
  const right = await read('right_side')
  t.same([...left.symmetricDifference(right)], [], 'no batch is partially applied')
  const wrong: unknown[] = []
  const codes: Record<string, number> = {}
  for (const [id, { status, body }] of answers) {
    const code = status === 200 ? 'ok' : String(body?.error?.code)
    codes[code] = (codes[code] ?? 0) + 1
    const isTrue = status === 200
      ? left.has(id)
      : body?.error?.committed === 'unknown' || (body?.error?.committed === false && !left.has(id))
    if (!isTrue) wrong.push({ id, status, body, applied: left.has(id) })
  }
  t.same(wrong, [], 'every response reports the true outcome')
  return codes
}
