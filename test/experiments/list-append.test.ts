/**
 * Runs the short form of the scenario. Also tests that the check detects broken engines: a gateway
 * in front of the service breaks atomicity, durability or isolation.
 */
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { checkHistory } from '../support/elle/levels.ts'
import { useListener } from '../support/network/listen.ts'
import { useService } from '../support/service.ts'
import { listAppend } from './list-append.ts'
import { startListClients } from './list-clients.ts'
import { schema } from './lists.ts'
import { seeded } from './scenario.ts'
import { seed, testShortForm } from './short-form.ts'

// About 20 s on an idle machine. Processes start seven times, which takes longer on a busy one.
t.setTimeout(300_000)

testShortForm(listAppend)

type Headers = Readonly<Record<string, string>>

/** Sends a batch to the service. Resolves with the response. */
type Send = (
  body: string,
  headers: Headers
) => Promise<{ readonly status: number, readonly text: string }>

/** An engine receives a batch in place of the service and may send any to the service. */
type Engine = (send: Send, body: string, headers: Headers, random: () => number) => ReturnType<Send>

const engines = {
  honest: (send, body, headers) => send(body, headers),
  /** Runs each operation in a transaction of its own. */
  async splitting (send, body, headers) {
    const data = {}
    for (const operation of JSON.parse(body) as readonly unknown[]) {
      const { status, text } = await send(JSON.stringify([operation]), headers)
      if (status !== 200) return { status: 500, text: '{"error":{"committed":"unknown"}}' }
      Object.assign(data, (JSON.parse(text) as { readonly data: object }).data)
    }
    return { status: 200, text: JSON.stringify({ error: null, data }) }
  },
  /** Rolls back one of ten batches and answers as if it were committed. */
  forgetful: (send, body, headers, random) =>
    send(body, random() < 0.1 ? { prefer: `${headers['prefer']}, tx=rollback` } : headers),
  /** Applies one of ten batches and reports that it was not. */
  async lying (send, body, headers, random) {
    const response = await send(body, headers)
    return random() < 0.1
      ? { status: 503, text: '{"error":{"committed":false}}' }
      : response
  },
  /** Ignores the isolation level, so `read committed` is used. */
  weak: (send, body) => send(body, {}),
  /** Uses snapshots where `serializable` is required. */
  skewed: (send, body) => send(body, { prefer: 'isolation=repeatable-read' })
} satisfies Record<string, Engine>

/** Starts a server with this engine. The end of `t` stops it. */
async function useEngine (t: Test, url: string, engine: Engine): Promise<string> {
  const random = seeded(seed)
  const server = createServer(async (request, response) => {
    const { authorization = '', prefer = '' } = request.headers
    const send: Send = async (body, headers) => {
      const sent = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization, ...headers },
        body
      })
      return { status: sent.status, text: await sent.text() }
    }
    const answer = await engine(send, await text(request), { prefer: String(prefer) }, random)
    response.writeHead(answer.status).end(answer.text)
  })
  return `http://127.0.0.1:${await useListener(t, server)}`
}

/** Of broken engines; in most cases the first one contains an anomaly. */
const MAX_HISTORIES = 10

t.test('the check detects broken engines', async t => {
  const found = async (
    engine: Engine,
    transactions: number,
    history = 0
  ): Promise<readonly string[]> => {
    // New tables, because a history begins with empty lists.
    const service = await useService(t, { schema, env: { POOL_SIZE: '10' } })
    const clients = startListClients({
      url: await useEngine(t, service.url, engine),
      level: 'serializable',
      clients: 10,
      transactions,
      random: seeded(seed + history),
      // The gateway does not pass keys on, so a transaction that is sent again would run twice.
      keys: false
    })
    t.teardown(() => clients.stop())
    await clients.end()
    const { forbidden } = checkHistory(clients.history, 'serializable')
    return [...new Set(forbidden.map(({ type }) => type))].sort()
  }
  t.same(await found(engines.honest, 400), [])
  const broken = {
    splitting: ['G-single', 'G1b'],
    forgetful: ['lost-append'],
    lying: ['G1a'],
    weak: ['G-single'],
    skewed: ['G2-item']
  } satisfies Partial<Record<keyof typeof engines, readonly string[]>>
  for (const [name, expected] of Object.entries(broken)) {
    // Transactions overlap by chance, so one history may contain no anomaly.
    let types: readonly string[] = []
    const isFound = (): boolean => types.some(type => expected.includes(type))
    for (let i = 0; i < MAX_HISTORIES && !isFound(); i++) {
      types = await found(engines[name as keyof typeof broken], 150, i)
    }
    t.ok(isFound(), `${name}: ${types.join(', ')}`)
  }
})
