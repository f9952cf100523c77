/**
 * A TCP proxy in front of PostgreSQL that gives a round trip, as a process of its own; started by
 * `fork`.
 *
 * In charge of: delaying both directions by half the round trip, in order, and keeping what clients
 * sent when it is asked to record. Refuses to: understand what goes through it (bench/wire.ts
 * does).
 *
 * argv: host:port of the server, round trip in ms, `record` or nothing. Messages: {url} once it
 * listens; to {} or {roundTripMs}, which changes it, it answers {bursts}: what clients sent,
 * base64, one element for each time that a client spoke after it had heard something.
 */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

const [target = '', roundTrip = '0', mode = ''] = process.argv.slice(2)
const host = target.slice(0, target.lastIndexOf(':'))
const port = Number(target.slice(target.lastIndexOf(':') + 1))
const delay = { oneWayMs: Number(roundTrip) / 2 }
const bursts: Buffer[] = []

const listener = createServer({ noDelay: true }, client => {
  const server = connect({ host, port, noDelay: true })
  // Whoever has heard nothing since it last spoke is still in the same burst, in however many
  // pieces it arrives.
  const spoken = { heard: true }
  const toServer = createLine(server)
  const toClient = createLine(client)
  client.on('data', bytes => {
    if (mode === 'record') keep(bytes, spoken)
    toServer(() => server.write(bytes))
  })
  server.on('data', bytes =>
    toClient(() => {
      spoken.heard = true
      client.write(bytes)
    }))
  for (
    const [one, other, line] of [[client, server, toServer], [server, client, toClient]] as const
  ) {
    one.on('error', () => {}).on('close', () => line(() => other.destroySoon()))
  }
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
// Whoever started it is gone.
process.on('disconnect', () => process.exit())

function keep (bytes: Buffer, spoken: { heard: boolean }): void {
  const last = spoken.heard ? undefined : bursts.pop()
  bursts.push(last === undefined ? bytes : Buffer.concat([last, bytes]))
  spoken.heard = false
}

/** Timers have whole milliseconds: what is due within this time (ms) goes with what is due now. */
const SLACK = 0.25

/** One direction of a connection: everything so much later, in the order in which it came. */
function createLine (target: Socket): (work: () => void) => void {
  const queue: Array<{ readonly due: number, readonly work: () => void }> = []
  const run = (): void => {
    while ((queue[0]?.due ?? Infinity) <= performance.now() + SLACK) queue.shift()?.work()
    if (queue.length > 0) wait()
  }
  const wait = (): void => {
    setTimeout(run, Math.max(1, Math.round((queue[0]?.due ?? 0) - performance.now())))
  }
  return work => {
    if (target.destroyed) return
    if (delay.oneWayMs === 0 && queue.length === 0) return work()
    queue.push({ due: performance.now() + delay.oneWayMs, work })
    if (queue.length === 1) wait()
  }
}
