/**
 * Creates the load, in its own process (started by `fork`): a closed loop of kept connections, with
 * autocannon. It sends an exact number of requests, each with new values and one of many tokens. It
 * stops only when all have a response, so that the database can be compared with the responses.
 *
 * Receives LoadOrder messages and replies with LoadResult messages.
 */
import { randomUUID } from 'node:crypto'
import autocannon from 'autocannon'
import { makeBody, succeeded, type LoadOrder, type LoadResult } from './requests.ts'

process.on('message', (order: LoadOrder) => {
  // An unhandled failure stops this process, and with it the benchmark.
  sendLoad(order).then(result => process.send?.(result))
})
process.on('disconnect', () => process.exit())

async function sendLoad (
  { url, dialect, work, connections, requests, tokens, keyed }: LoadOrder
): Promise<LoadResult> {
  let good = 0
  let firstError: string | undefined
  let sent = 0
  let last = 0
  const start = performance.now()
  const latencies: number[] = []
  // With a callback autocannon returns an emitter of responses; without one, only a promise.
  const finished = Promise.withResolvers<autocannon.Result>()
  const running = autocannon({
    url,
    connections,
    amount: requests,
    // How often autocannon checks whether it has finished.
    sampleInt: 50,
    timeout: 60,
    requests: [{
      method: 'POST',
      setupRequest (request) {
        const caller = sent++ % tokens.length
        return {
          ...request,
          headers: {
            'content-type': 'application/json',
            authorization: `Bearer ${tokens[caller]}`,
            ...keyed ? { 'idempotency-key': randomUUID() } : {}
          },
          body: makeBody(dialect, work, { caller })
        }
      },
      onResponse (status, body) {
        if (status !== 200 || !succeeded(dialect, work, body)) {
          firstError ??= `${status} ${body.slice(0, 1000)}`
        } else good += 1
      }
    }]
  }, (error, result) => error === null ? finished.resolve(result) : finished.reject(error))
  running.on('response', (_client, _status, _bytes, ms) => {
    latencies.push(ms)
    last = performance.now()
  })
  const { errors, timeouts } = await finished.promise
  latencies.sort((a, b) => a - b)
  const at = (part: number): number =>
    latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * part))] ?? 0
  return {
    succeeded: good,
    failed: latencies.length - good + errors + timeouts,
    firstError,
    seconds: (last - start) / 1000,
    p50Ms: at(0.5),
    p99Ms: at(0.99)
  }
}
