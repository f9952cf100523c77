/**
 * The routes as a plugin for the Fastify server of another service. They are encapsulated: hooks,
 * parsers, decorators and error responses do not reach the routes of the host. What concerns its
 * HTTP server, such as timeouts and limits of headers, stays as the host has set it.
 */
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Observer } from '../transaction/decorators.ts'
import { adminRoutes, type AdminRouteOptions } from './admin.ts'
import { registerRoutes, type RouteOptions } from './app.ts'

export interface OneflightOptions extends Omit<RouteOptions, 'batches'> {
  /** The path below which the routes are served, for example `/data`. */
  readonly prefix: string
  /**
   * A Fastify instance that is not public. It gets `/metrics`, `/live`, `/ready` and `/config`
   * below the same prefix.
   */
  readonly admin?: AnyInstance | undefined
}

/** A FastifyInstance with any server, logger and type provider. */
interface AnyInstance {
  readonly register: (plugin: never, options: never) => unknown
}

async function plugin (app: FastifyInstance, options: OneflightOptions): Promise<void> {
  const problem = findProblem(app, options)
  if (problem !== undefined) throw new Error(`oneflight: ${problem}`)
  decorateForHost(app)
  // Then the hooks of this context run for paths without a route. One of them responds.
  /* c8 ignore next */
  app.setNotFoundHandler((_request, reply) => reply.send())
  await registerRoutes(app, options)
  const adminOptions: AdminRouteOptions & { readonly prefix: string } = {
    prefix: app.prefix,
    config: options.config,
    scrape: app.getDecorator<Observer>('observer').scrape,
    notReadyReason: app.getDecorator('notReadyReason')
  }
  options.admin?.register(adminRoutes as never, adminOptions as never)
}

/** Says why the options do not work in this host. */
function findProblem (
  app: FastifyInstance,
  { config, keys, prefix }: OneflightOptions
): string | undefined {
  if (!/^\/[^*:]*[^/*:]$/.test(prefix)) return '"prefix" must be a path such as "/data"'
  if (config.CORS_ORIGINS !== undefined && app.hasRequestDecorator('corsPreflightEnabled')) {
    return 'CORS_ORIGINS: the host has registered @fastify/cors'
  }
  if (config.COMPRESSION === 'on' && app.hasReplyDecorator('compress')) {
    return 'COMPRESSION: the host has registered @fastify/compress'
  }
  const hasKeys = keys !== undefined || app.hasRequestDecorator('jwtVerify')
  return hasKeys || config.ANON_ROLE !== undefined
    ? undefined
    : 'no request can be authorized: set a key or ANON_ROLE, or register @fastify/jwt before'
}

function decorateForHost (app: FastifyInstance): void {
  let stopping = false
  app.decorate('isStopping', () => stopping)
  app.addHook('preClose', async () => {
    stopping = true
  })
  app.decorate('earlyFailures', new WeakMap<IncomingMessage, never>())
}

/**
 * The plugin: `app.register(oneflight, { prefix: '/data', ...readConfig(process.env) })`. Database
 * connections are opened and closed with the host.
 */
export const oneflight = fp(plugin, { name: 'oneflight', fastify: '5.x', encapsulate: true })
