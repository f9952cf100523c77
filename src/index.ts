/**
 * The public interface of the package, for programs that start the service themselves or serve its
 * routes in a Fastify server of their own. These exports are stable within a major version; all
 * other modules may change at any time.
 *
 * ```ts
 * import { readConfig, startService } from 'oneflight'
 * const service = await startService({ ...readConfig(process.env), logger: pino() })
 * ```
 */
export type { Config } from '../schemas/config.ts'
export { buildApp, type AppOptions } from './server/app.ts'
export {
  readConfig,
  type ConfigError,
  type ConfigOptions,
  type Environment,
  type Settings
} from './config/config.ts'
export { oneflight, type OneflightOptions } from './server/plugin.ts'
export type { Service } from './server/service.ts'
export { startService } from './server/service.ts'
