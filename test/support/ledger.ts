/**
 * Clients that write without pause and record the responses, and audits that compare the responses
 * with the database: of pairs of rows, and of batches with a key.
 */
import { Value } from '@sinclair/typebox/value'
import type { Sql } from 'postgres'
import type { Test } from 'tap'
import { ErrorEnvelope } from '../../schemas/error.ts'
import type { Answer, ServiceUnderTest } from './service.ts'
import { until } from './until.ts'

/** A batch inserts into `left_side` first and `right_side` last, with about 4 ms in between. */
export const ledgerSchema = `
  create table left_side (id int primary key);
  create table right_side (id int primary key);
  create table moves (id int not null);
  create view pause as select pg_sleep(0.004)::text as slept;`

export const pair = (id: number): object[] => [
  { id: 'l', op: 'insert', table: 'left_side', values: [{ id }] },
  { id: 'p', op: 'select', table: 'pause' },
  { id: 'r', op: 'insert', table: 'right_side', values: [{ id: '$l.0.id' }] }
]

export interface Load {
  /** The responses so far, by the number of the pair. */
  readonly answers: ReadonlyMap<number, Answer>
  /** Stops the load. Resolves when all requests are answered. */
  stop(): Promise<unknown>
}

/** Starts `clients` clients that post one pair after the other. */
export function startLoad (service: ServiceUnderTest, clients: number): Load {
  const answers = new Map<number, Answer>()
  const { stop } = startWork(clients, async id => {
    answers.set(id, await service.post(pair(id)))
  })
  return { answers, stop }
}

/** Runs `work` in `clients` loops, each time with another number. `stop` returns how many. */
export function startWork (
  clients: number,
  work: (id: number) => Promise<unknown>
): { stop(): Promise<number> } {
  let next = 0
  const end = new AbortController()
  const done = Promise.all(Array.from({ length: clients }, async () => {
    while (!end.signal.aborted) await work(next++)
  }))
  return {
    async stop () {
      end.abort()
      await done
      return next
    }
  }
}

/** Resolves when a pair that is posted from now on was acknowledged. */
export async function servesAgain ({ answers }: Load): Promise<void> {
  const since = answers.size
  await until(() => [...answers].some(([id, { status }]) => id >= since && status === 200))
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

/** The row of a batch with a key. It takes about 4 ms more. */
export const move = (id: number): object[] => [
  { id: 'm', op: 'insert', table: 'moves', values: [{ id }] },
  { id: 'p', op: 'select', table: 'pause' }
]

export interface KeyedLoad {
  /** The number of responses: `ok`, `ok replayed`, the code of an error, or `none`. */
  readonly codes: Readonly<Record<string, number>>
  /** Resolves when `n` more batches are answered 200. */
  more(n: number): Promise<void>
  /** Stops the load. Resolves with the number of batches when all are answered 200. */
  stop(): Promise<number>
  /** Responses that are no success and do not allow to send the batch again. */
  readonly wrong: readonly unknown[]
}

/** Posts a batch. Undefined: the connection closed before the response. */
export type PostKeyed = (
  batch: readonly object[],
  headers: Readonly<Record<string, string>>
) => Promise<Answer | undefined>

/**
 * Starts clients that repeat each batch until it is answered 200, with a key that begins with
 * `name`. A batch that always fails lets the test time out.
 */
export function startKeyedLoad (clients: number, post: PostKeyed, name = 'move'): KeyedLoad {
  const codes: Record<string, number> = {}
  const wrong: unknown[] = []
  let done = 0
  const { stop } = startWork(clients, async id => {
    await until(async () => {
      const answer = await post(move(id), { 'idempotency-key': `${name}-${id}` })
      const code = codeOf(answer)
      codes[code] = (codes[code] ?? 0) + 1
      const isDone = answer?.status === 200
      if (!isDone && answer !== undefined && !mayBeSentAgain(answer)) wrong.push(answer.text)
      return isDone
    })
    done++
  })
  return {
    codes,
    wrong,
    stop,
    async more (n) {
      const enough = done + n
      await until(() => done >= enough)
    }
  }
}

function codeOf (answer: Answer | undefined): string {
  if (answer === undefined) return 'none'
  const { status, headers, body } = answer
  if (status !== 200) return String(body?.error?.code)
  return headers.has('idempotent-replayed') ? 'ok replayed' : 'ok'
}

function mayBeSentAgain ({ body }: Answer): boolean {
  return Value.Check(ErrorEnvelope, body) &&
    (body.error.committed === 'unknown' || body.error.retryable === true)
}

/** Stops the load. Asserts that each batch is applied once. */
export async function auditKeyed (t: Test, sql: Sql, load: KeyedLoad): Promise<void> {
  const sent = await load.stop()
  t.comment(JSON.stringify(load.codes))
  t.same(load.wrong, [], 'all other responses allow a retry')
  const twice = await sql.unsafe(
    'select id, count(*)::int as n from moves group by id having count(*) <> 1'
  )
  t.same(twice, [], 'no batch is applied twice')
  t.same(await sql.unsafe('select count(*)::int as n from moves'), [{ n: sent }], 'none is missing')
}
