/**
 * Measures what one batch costs on the wire, in numbers that are the same on every machine:
 * messages, bytes and writes between the service and PostgreSQL. The service has one connection,
 * through a proxy.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import { createFramer, type Frame } from './network/messages.ts'
import {
  holdUntilWritten,
  isIdle,
  messageTypes,
  untilAlone,
  untilQuiet,
  useProxy,
  type Proxy
} from './network/proxy.ts'
import { token, useService, type ServiceUnderTest } from './service.ts'
import { until } from './until.ts'

const ROLE = 'oneflight_user'

export interface Cost {
  /** Bursts of the service. After each burst it waits for the database. */
  readonly roundTrips: number
  /** System calls that wrote them. */
  readonly writes: number
  /**
   * Messages after BEGIN. A parsed statement that runs is `PBE`, one that is only described `PD`,
   * a prepared statement `BE`, a simple query `Q`. `3 BE` are three of them. `H` is Flush.
   */
  readonly messages: string
  /** The texts of their statements; empty for those that every batch has prepared before. */
  readonly texts: readonly string[]
  /** Bytes that the service sent, without the names of prepared statements. */
  readonly sent: number
  /** Bytes that the database sent, without transaction ids and reports of settings. */
  readonly received: number
}

export interface Meter {
  readonly service: ServiceUnderTest
  /**
   * Posts a batch on a quiet connection and waits for its end. Throws unless the status is 200.
   * From the first call on, the proxy accepts no other connection.
   */
  measure(batch: readonly object[], headers?: Readonly<Record<string, string>>): Promise<Cost>
}

/**
 * Starts a service with one connection and the table of idempotency keys. The end of `t` stops it.
 * Statements that every batch shares are already prepared.
 */
export async function useMeter (
  t: Test,
  schema: string,
  env: Readonly<Record<string, string>> = {}
): Promise<Meter> {
  const proxy = await useProxy(t, process.env['TEST_DATABASE_URL'] as string)
  const countWritten = watchWrites(t, proxy)
  const service = await useService(t, {
    schema: `${schema}; ${shared.sql}`,
    keys: true,
    env: { POOL_SIZE: '1', ...env },
    databaseUrl: proxy.through
  })
  await untilAlone(proxy)
  const authorization = `Bearer ${token({ role: ROLE })}`
  for (let time = 0; time < 3; time++) {
    for (const batch of shared.batches) await service.post(batch, { headers: { authorization } })
  }
  // A response in the middle of the pipeline would split the burst, so responses wait for its end.
  holdUntilWritten(proxy)
  const prepared = new Map<string, string>()
  return {
    service,
    async measure (batch, headers = {}) {
      // No other connection may interfere. The deletion of expired keys would, after half a minute.
      proxy.open = false
      await untilQuiet(proxy)
      proxy.record()
      const before = countWritten()
      // A fixed request id. Without one the service creates a UUID.
      const { status, text } = await service.post(batch, {
        headers: { authorization, 'x-request-id': 'cost', ...headers }
      })
      if (status !== 200) throw new Error(`answered ${status}: ${text}`)
      // Responses after COMMIT arrive later than the response of the service.
      await until(() => isIdle(proxy))
      const [client, server] = (['client', 'server'] as const).map(side =>
        proxy.bursts.filter(({ from }) => from === side).map(({ bytes }) => bytes)
      ) as [Buffer[], Buffer[]]
      const [, bytes = Buffer.alloc(0)] = client
      return {
        roundTrips: client.length,
        writes: countWritten() - before,
        messages: shorten(messageTypes(bytes)),
        texts: readTexts(bytes, prepared),
        sent: countBytes(client, nameLength),
        received: countBytes(server, variableLength)
      }
    }
  }
}

/**
 * Batches that share only the session statements with others: the statement for batches that write,
 * and the one for batches that only read.
 */
const shared = {
  sql: 'create table nothing (n int)',
  batches: [
    [{ id: 'a', op: 'delete', table: 'nothing', all: true }],
    [{ id: 'a', op: 'select', table: 'nothing' }]
  ]
}

/**
 * Counts the writes of Node to connections to the proxy. Several corked writes count as one system
 * call.
 */
function watchWrites (t: Test, proxy: Proxy): () => number {
  const port = Number(new URL(proxy.through(process.env['TEST_DATABASE_URL'] as string)).port)
  let count = 0
  const watch = (message: unknown): void => {
    // A connection that the proxy refuses.
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
  for (const statement of types.match(/P?BEH?|PD|./g) ?? []) {
    const last = runs.at(-1)
    if (last?.types === statement) last.times++
    else runs.push({ types: statement, times: 1 })
  }
  return runs.map(({ types, times }) => times === 1 ? types : `${times} ${types}`).join(' ')
}

/** `prepared`: the texts of the prepared statements by name. */
function readTexts (bytes: Buffer, prepared: Map<string, string>): readonly string[] {
  return createFramer().feed(bytes).flatMap(({ type, body }) => {
    const [first = '', second = ''] = body.toString('latin1').split('\0', 2)
    if (type === 'P') prepared.set(first, second)
    if (type === 'B') return prepared.get(second) ?? ''
    return type === 'Q' ? first : []
  })
}

/** Sums the bytes of all messages, minus the excluded ones of each. */
function countBytes (bursts: readonly Buffer[], excluded: (message: Frame) => number): number {
  const bytes = Buffer.concat(bursts)
  return createFramer().feed(bytes).reduce((sum, message) => sum - excluded(message), bytes.length)
}

/**
 * Length of the statement name in a Parse, Bind or Describe message, which counts the names before
 * it.
 */
function nameLength ({ type, body }: Frame): number {
  if (type === 'P') return body.indexOf(0)
  return type === 'B' || type === 'D' ? body.indexOf(0, 1) - 1 : 0
}

/**
 * Length of the parts that vary. Reports of settings depend on the version and configuration of
 * PostgreSQL. The length of a transaction id depends on the age of the cluster; it is the first
 * cell of the response to the session statement, whose second one is the role.
 */
function variableLength ({ type, start, end, body }: Frame): number {
  if (type === 'S') return end - start
  if (type !== 'D') return 0
  const length = Math.max(0, body.readInt32BE(2))
  return body.toString('latin1', 10 + length).startsWith(ROLE) ? length : 0
}
