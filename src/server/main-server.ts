/**
 * The main server: started, and stopped in order. A worker process has no other one.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { buildApp, type AppOptions } from './app.ts'
import { listen } from './listen.ts'

export interface Service {
  /** URL of the main server, for example `http://127.0.0.1:4000`. */
  readonly url: string
  readonly adminUrl: string
  /**
   * Stops the service. It is not ready from now on, and accepts connections for another
   * `SHUTDOWN_DELAY_MS`, or not at all with `now`. Running batches are finished, then all database
   * connections are closed.
   */
  stop(now?: 'now'): Promise<void>
}

/** Starts the main server. Throws when it cannot listen, and leaves nothing running. */
export async function startMain (
  options: AppOptions
): Promise<{ readonly app: FastifyInstance } & Pick<Service, 'url' | 'stop'>> {
  const { HTTP_HOST: host, HTTP_PORT: port, SHUTDOWN_DELAY_MS: delayMs } = options.config
  const app = await buildApp(options)
  await app.ready()
  try {
    const url = await listen(app, { name: 'main', host, port })
    return {
      app,
      url,
      async stop (now) {
        app.announceStop()
        // Closing the listening socket resets connections that the kernel has accepted and we have
        // not. Load balancers need this time to stop sending new ones.
        if (now === undefined) await delay(delayMs)
        await app.close()
      }
    }
  } catch (error) {
    await app.close()
    throw error
  }
}
