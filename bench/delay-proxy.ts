/**
 * A TCP proxy in front of PostgreSQL that adds a round trip, in its own process (started by
 * `fork`). It delays each direction by half of the round trip. On request it records what clients
 * send, which bench/wire.ts parses.
 *
 * argv: host:port of the server, round trip in ms, optionally `record`.
 *
 * Messages: it sends {url} once it listens. It replies to {}, and to {roundTripMs}, which changes
 * the delay, with {bursts}: the data that clients sent, in base64. A burst is the data that a
 * client sends before it receives any.
 */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

const [target = '', roundTrip = '0', mode = ''] = process.argv.slice(2)
const host = target.slice(0, target.lastIndexOf(':'))
const port = Number(target.slice(target.lastIndexOf(':') + 1))
const delay = { oneWayMs: Number(roundTrip) / 2 }
const bursts: Buffer[] = []

const listener = createServer({ noDelay: true }, client => {
  const server = connect({ host, port, noDelay: true })
  // Data that the client sends before it receives any is one burst, in any number of pieces.
  const state = { received: true }
  const toServer = createDelay(server)
  const toClient = createDelay(client)
  client.on('data', bytes => {
    if (mode === 'record') record(bytes, state)
    toServer(() => server.write(bytes))
  })
  server.on('data', bytes =>
    toClient(() => {
      state.received = true
      client.write(bytes)
    }))
  client.on('error', () => {}).on('close', () => toServer(() => server.destroySoon()))
  server.on('error', () => {}).on('close', () => toClient(() => client.destroySoon()))
})

listener.listen(
  0,
  '127.0.0.1',
  () => process.send?.({ url: `127.0.0.1:${(listener.address() as AddressInfo).port}` })
)
process.on('message', (message: { readonly roundTripMs?: number }) => {
  if (message.roundTripMs !== undefined) delay.oneWayMs = message.roundTripMs / 2
  process.send?.({ bursts: bursts.map(bytes => bytes.toString('base64')) })
})
// The parent process has ended.
process.on('disconnect', () => process.exit())

function record (bytes: Buffer, state: { received: boolean }): void {
  const last = state.received ? undefined : bursts.pop()
  bursts.push(last === undefined ? bytes : Buffer.concat([last, bytes]))
  state.received = false
}

interface Delayed {
  readonly due: number
  readonly target: Socket
  readonly work: () => void
}

/** The delayed data of all connections. The delay is the same for all, so this is their order. */
const queue: Delayed[] = []

/** Returns a function that delays the data of one direction of a connection, in order. */
function createDelay (target: Socket): (work: () => void) => void {
  return work => {
    if (target.destroyed) return
    if (delay.oneWayMs === 0 && queue.length === 0) return work()
    queue.push({ due: performance.now() + delay.oneWayMs, target, work })
    if (queue.length === 1) wait()
  }
}

/** Timers have a resolution of 1 ms. They are up to this late (ms). */
const TIMER_MS = 2
/** The length of a sleep, as a part of the delay. It limits the error. */
const SLEEP_PART = 1 / 8
const never = new Int32Array(new SharedArrayBuffer(4))

/**
 * Waits with a timer until shortly before the end, and then in short sleeps between which data is
 * received. A round trip of 0.5 ms is shorter than any timer, and without sleeping the proxy would
 * take a whole processor.
 */
function wait (): void {
  const left = (queue[0]?.due ?? 0) - performance.now()
  const sleepMs = delay.oneWayMs * SLEEP_PART
  if (left > TIMER_MS) setTimeout(run, Math.floor(left - TIMER_MS) + 1)
  else setImmediate(run, left > sleepMs ? sleepMs : 0)
}

/** Sends what is due, after a sleep. */
function run (sleepMs = 0): void {
  if (sleepMs > 0) Atomics.wait(never, 0, 0, sleepMs)
  while ((queue[0]?.due ?? Infinity) <= performance.now()) {
    const { target, work } = queue.shift() as Delayed
    if (!target.destroyed) work()
  }
  if (queue.length > 0) wait()
}
