/**
 * The main server and the admin server as one service: started together, stopped in order. It does
 * not read the environment and does not end the process.
 */
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Observer } from '../transaction/observer.ts'
import { buildAdmin, listenAdmin, type NotReadyReason } from './admin.ts'
import { namedBatchesOf, type AppOptions, buildApp } from './app.ts'
import { listen } from './http-server.ts'

/** Starts both servers. Throws when one of them cannot listen, and leaves neither running. */
export async function startService (options: AppOptions): Promise<Service> {
  const { config, logger } = options
  const main = await startMain(options)
  const { app, url } = main
  const { scrape } = app.getDecorator<Observer>('observer')
  const admin = buildAdmin({
    config,
    logger,
    batches: namedBatchesOf(options),
    scrape,
    main: () => app.server.address() as AddressInfo | null,
    notReadyReason: app.getDecorator<() => Promise<NotReadyReason | undefined>>('notReadyReason')
  })
  try {
    const adminUrl = await listenAdmin(admin, config)
    return {
      url,
      adminUrl,
      async stop (now) {
        // The admin server stops last: /live and /ready report the state until the end.
        await main.stop(now)
        await admin.close()
      }
    }
  } catch (error) {
    await Promise.all([app.close(), admin.close()])
    throw error
  }
}

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
