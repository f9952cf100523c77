/**
 * Both servers as one service: started together, stopped in order. It neither reads the environment
 * nor ends the process.
 */
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { buildAdmin, listenAdmin, type NotReadyReason } from './admin.ts'
import { buildApp, type AppOptions } from './app.ts'
import type { Observer } from '../transaction/observer.ts'

export interface Service {
  /** Where the servers listen, e.g. `http://127.0.0.1:4000`. */
  readonly url: string
  readonly adminUrl: string
  /**
   * Not ready from now on. Connections are taken for `SHUTDOWN_DELAY_MS` more, or with `now` no
   * longer; batches that run are finished, then every database connection is closed.
   */
  stop(now?: 'now'): Promise<void>
}

/** Starts both servers. Throws when one of them cannot listen; then neither does. */
export async function startService (options: AppOptions): Promise<Service> {
  const { config, logger } = options
  const main = await startMain(options)
  const { app, url } = main
  const { scrape } = app.getDecorator<Observer>('observer')
  const admin = buildAdmin({
    config,
    logger,
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
        // The admin server is last: /live and /ready tell what is going on to the end.
        await main.stop(now)
        await admin.close()
      }
    }
  } catch (error) {
    await Promise.all([app.close(), admin.close()])
    throw error
  }
}

/** Starts the main server alone. Throws when it cannot listen; nothing is left of it then. */
export async function startMain (
  options: AppOptions
): Promise<{ readonly app: FastifyInstance } & Pick<Service, 'url' | 'stop'>> {
  const { HTTP_HOST: host, HTTP_PORT: port, SHUTDOWN_DELAY_MS: delayMs } = options.config
  const app = await buildApp(options)
  await app.ready()
  try {
    const url = await app.listen({
      host,
      port,
      listenTextResolver: address => `main server: ${address}`
    })
    return {
      app,
      url,
      async stop (now) {
        app.announceStop()
        // A connection that the system has taken and we have not is reset when we stop to listen:
        // whoever makes them has to look away first.
        if (now === undefined) await delay(delayMs)
        await app.close()
      }
    }
  } catch (error) {
    await app.close()
    throw error
  }
}
