/**
 * The door of the package for programs that bring the service up themselves. What is named here is
 * stable within a major version; everything else in the package may change with any. It re-exports
 * and does nothing.
 *
 * ```ts
 * import { readConfig, startService } from 'oneflight'
 * const service = await startService({ ...readConfig(process.env), logger: pino() })
 * ```
 */
export type { Config } from '../schemas/config.ts'
export { buildApp, type AppOptions } from './server/app.ts'
export { readConfig, type ConfigError, type Environment, type Settings } from './config/config.ts'
export { startService, type Service } from './server/service.ts'
