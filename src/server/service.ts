/**
 * The main server and the admin server as one service: started together, stopped in order. It does
 * not read the environment and does not end the process.
 */
import type { AddressInfo } from 'node:net'
import { openBatchSet } from '../named/read-files.ts'
import type { Observer } from '../transaction/decorators.ts'
import { buildAdmin, type NotReadyReason } from './admin.ts'
import { startMain, type AppOptions, type StartedServer } from './app.ts'
import { listen } from './http-server.ts'

/** Starts both servers. Throws when one of them cannot listen, and leaves neither running. */
export async function startService (options: AppOptions): Promise<Service> {
  const { config, logger, batches = openBatchSet(config) } = options
  const main = await startMain({ ...options, batches })
  const { app, url } = main
  const { scrape } = app.getDecorator<Observer>('observer')
  const admin = buildAdmin({
    config,
    logger,
    batches: batches.current,
    scrape,
    main: () => app.server.address() as AddressInfo | null,
    notReadyReason: app.getDecorator<() => Promise<NotReadyReason | undefined>>('notReadyReason')
  })
  try {
    const adminUrl = await listen(admin, config, 'admin')
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

export interface Service extends Pick<StartedServer, 'url' | 'stop'> {
  readonly adminUrl: string
}
