/**
 * Both servers as one service: started together, stopped in order. It neither reads the environment nor ends the process.
 */
import { buildAdmin } from './admin.ts'
import { buildApp, type AppOptions } from './app.ts'

export interface Service {
  /** Where the servers listen, e.g. `http://127.0.0.1:4000`. */
  readonly url: string
  readonly adminUrl: string
  /** Not ready from now on; no new connection is taken, batches that run are finished, then every database connection is closed. */
  stop (): Promise<void>
}

/** Starts both servers. Throws when one of them cannot listen; then neither does. */
export async function startService (options: AppOptions): Promise<Service> {
  const { config, logger } = options
  let stopping = false
  const app = await buildApp(options)
  await app.ready()
  const admin = buildAdmin({ config, logger, main: app, stopping: () => stopping })
  try {
    const url = await app.listen({ host: config.HTTP_HOST, port: config.HTTP_PORT, listenTextResolver: address => `main server: ${address}` })
    const adminUrl = await admin.listen({ host: config.ADMIN_HTTP_HOST, port: config.ADMIN_HTTP_PORT, listenTextResolver: address => `admin server: ${address}` })
    return {
      url,
      adminUrl,
      async stop () {
        stopping = true
        // The admin server is last: /live and /ready tell what is going on to the end.
        await app.close()
        await admin.close()
      }
    }
  } catch (error) {
    await Promise.all([app.close(), admin.close()])
    throw error
  }
}
