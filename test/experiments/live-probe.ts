/**
 * Asks `/live` of the admin server again and again, in a thread of its own, which has nothing else
 * to do. The longest response time is about the longest piece of the event loop of the service.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { encode, openConnection } from './client.ts'

const INTERVAL_MS = 5

export interface LiveProbe {
  /** Returns the longest response time since the last call, in milliseconds. */
  longest(): Promise<number>
  stop(): Promise<unknown>
}

export function startLiveProbe (adminUrl: string): LiveProbe {
  const worker = new Worker(new URL(import.meta.url), { workerData: adminUrl })
  const failed = new Promise<never>((_resolve, reject) => worker.once('error', reject))
  failed.catch(() => {})
  return {
    longest: async () => {
      const answered = new Promise<number>(resolve => worker.once('message', resolve))
      worker.postMessage('longest')
      return Promise.race([answered, failed])
    },
    stop: () => worker.terminate()
  }
}

async function probe (adminUrl: string): Promise<void> {
  let longest = 0
  let sentAt = performance.now()
  parentPort?.on('message', () => {
    // A request that is not answered yet counts, too.
    parentPort?.postMessage(Math.max(longest, performance.now() - sentAt))
    longest = 0
  })
  const connection = await openConnection(adminUrl)
  const request = encode('GET', '/live')
  for (;;) {
    sentAt = performance.now()
    const { ms } = await connection.send(request)
    longest = Math.max(longest, ms)
    await delay(INTERVAL_MS)
  }
}

if (!isMainThread) await probe(workerData as string)
