/**
 * What one batch costs, in numbers that are the same on every machine: messages, bytes and writes
 * between the service and PostgreSQL.
 *
 * In charge of: a service with one connection, led through a proxy, and what one batch put on it.
 * Refuses to: measure time, or judge a number.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import { createFramer, type Frame } from '../chaos/messages.ts'
import {
  holdUntilWritten,
  isIdle,
  untilAlone,
  messageTypes,
  useProxy,
  type Proxy
} from './network/proxy.ts'
import { useService, type ServiceUnderTest } from './service.ts'
import { until } from './until.ts'

/** One batch on the wire. */
export interface Cost {
  /** Bursts of the service: after each of them it waits for the database. */
  readonly roundTrips: number
  /** System calls by which they were written. */
  readonly writes: number
  /**
   * Messages of the flight, which follows BEGIN: a statement that is parsed is `PDBES`, one that is
   * held prepared `BES`, a simple one `Q`; `3 BES` are three of them.
   */
  readonly messages: string
  /** Bytes of the service, without the names of prepared statements. */
  readonly sent: number
  /** Bytes of the database, without ids of transactions and reports of settings. */
  readonly received: number
}

export interface Meter {
  readonly service: ServiceUnderTest
  /**
   * From the first time on no other connection is let in. Posts a batch and waits for its end.
   * Throws when it is not answered 200.
   */
  measure(batch: readonly object[], headers?: Readonly<Record<string, string>>): Promise<Cost>
}

/**
 * A service of one connection, with the table of idempotency keys; it ends with `t`. What every
 * batch shares is prepared already.
 */
export async function useMeter (t: Test, schema: string): Promise<Meter> {
  const proxy = await useProxy(t, process.env['TEST_DATABASE_URL'] as string)
  const countWritten = watchWrites(t, proxy)
  const service = await useService(t, {
    schema: `${schema}; ${shared.sql}`,
    keys: true,
    env: { POOL_SIZE: '1' },
    databaseUrl: proxy.through
  })
  await untilAlone(proxy)
  for (let time = 0; time < 3; time++) {
    for (const batch of shared.batches) await service.post(batch)
  }
  // Not before the whole flight was written: an answer in the middle of it would cut the burst in
  // two.
  holdUntilWritten(proxy)
  return {
    service,
    async measure (batch, headers = {}) {
      // Nobody else comes in between: who deletes expired keys would, after half a minute.
      proxy.open = false
      await until(() => isIdle(proxy))
      proxy.record()
      const before = countWritten()
      // A request without an id is given a UUID; one that says who asked is easier to find in a
      // log.
      const { status, text } = await service.post(batch, {
        headers: { 'x-request-id': 'cost', ...headers }
      })
      if (status !== 200) throw new Error(`answered ${status}: ${text}`)
      // Nobody waits for what comes behind COMMIT.
      await until(() => isIdle(proxy))
      const [client, server] = (['client', 'server'] as const).map(side =>
        proxy.bursts.filter(({ from }) => from === side).map(({ bytes }) => bytes)
      ) as [Buffer[], Buffer[]]
      return {
        roundTrips: client.length,
        writes: countWritten() - before,
        messages: shorten(messageTypes(client[1] ?? Buffer.alloc(0))),
        sent: weigh(client, nameIn),
        received: weigh(server, chanceIn)
      }
    }
  }
}

/**
 * Batches that have nothing in common with others but the session scope: that of batches that
 * write, and that of others.
 */
const shared = {
  sql: 'create table nothing (n int); grant all on nothing to oneflight_user',
  batches: [[{ id: 'a', op: 'delete', table: 'nothing', all: true }], [{
    id: 'a',
    op: 'select',
    table: 'nothing'
  }]]
}

/**
 * Counts what Node hands to the kernel on connections to the proxy: a write, or several that were
 * corked and go as one.
 */
function watchWrites (t: Test, proxy: Proxy): () => number {
  const port = Number(new URL(proxy.through(process.env['TEST_DATABASE_URL'] as string)).port)
  let count = 0
  const watch = (message: unknown): void => {
    // One that is not let in.
    if (!proxy.open) return
    const { socket } = message as { socket: Socket }
    for (const method of ['_write', '_writev'] as const) {
      const original = socket[method] as (...args: unknown[]) => void
      Object.assign(socket, {
        [method] (...args: unknown[]) {
          if (socket.remotePort === port) count++
          original.apply(socket, args)
        }
      })
    }
  }
  subscribe('net.client.socket', watch)
  t.teardown(() => unsubscribe('net.client.socket', watch))
  return () => count
}

function shorten (types: string): string {
  const runs: Array<{ readonly types: string, times: number }> = []
  for (const statement of types.match(/(?:PD)?BES|./g) ?? []) {
    const last = runs.at(-1)
    if (last?.types === statement) last.times++
    else runs.push({ types: statement, times: 1 })
  }
  return runs.map(({ types, times }) => times === 1 ? types : `${times} ${types}`).join(' ')
}

/** Bytes of all messages, less what `leave` says of each. */
function weigh (bursts: readonly Buffer[], leave: (message: Frame) => number): number {
  const bytes = Buffer.concat(bursts)
  return createFramer().feed(bytes).reduce((sum, message) => sum - leave(message), bytes.length)
}

/**
 * Bind names its statement; postgres.js begins the names of a connection with a random word of no
 * fixed length.
 */
function nameIn ({ type, body }: Frame): number {
  return type === 'B' ? body.indexOf(0, 1) - 1 : 0
}

/**
 * Reports of settings: their number depends on the version of PostgreSQL and on its configuration.
 * The id of the transaction, the first cell of what the session scope answers (which alone has more
 * than two): it is as long as the cluster is old.
 */
function chanceIn ({ type, start, end, body }: Frame): number {
  if (type === 'S') return end - start
  return type === 'D' && body.readInt16BE(0) > 2 ? Math.max(0, body.readInt32BE(2)) : 0
}
