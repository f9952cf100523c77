/**
 * Who may run what: named batches, which the path or a message names, and batches that the client
 * sends. Routes use the decorators `findNamedBatch` and `admitAdhoc` as onRequest hooks after
 * `authenticate`, before the body is read. A route whose body names the batch uses `NamedAccess`.
 */
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Config, ConfigOptions } from '../schemas/config.ts'
import { failure } from '../src/errors/catalogue.ts'
import {
  unknownBatch,
  type NamedAccess,
  type NamedBatch,
  type NamedBatches
} from '../src/named/named-batch.ts'
import { findUploadTarget } from '../src/named/upload-parameters.ts'

declare module 'fastify' {
  interface FastifyRequest {
    namedBatch: NamedBatch | undefined
  }
}

async function namedBatches (
  app: FastifyInstance,
  { config, batches }: ConfigOptions & { readonly batches: () => NamedBatches }
): Promise<void> {
  const adhoc = rolesOf(config.ADHOC_BATCHES)
  app.decorateRequest('namedBatch', undefined)
  const access: NamedAccess<FastifyRequest> = {
    list: request => [...batches().values()].filter(({ roles }) => mayRun(request, roles)),
    find (request, name) {
      const batch = batches().get(name)
      if (batch === undefined) {
        throw unknownBatch(name, access.list(request).map(known => known.name))
      }
      request.namedBatch = batch
      request.access.batch = name
      if (!mayRun(request, batch.roles)) throw failure('role_forbidden')
      return batch
    }
  }
  app.decorate('namedAccess', access)
  app.decorate<onRequestHookHandler>('findNamedBatch', (request, _reply, done) => {
    const batch = access.find(request, (request.params as { readonly name: string }).name)
    if (request.upload !== undefined) findUploadTarget(batch)
    done()
  })
  app.decorate<onRequestHookHandler>('admitAdhoc', (request, _reply, done) => {
    done(mayRun(request, adhoc) ? undefined : failure('adhoc_forbidden'))
  })
}

/** The roles of ADHOC_BATCHES; undefined: every role. `on` and `off` are not roles. */
function rolesOf (list: Config['ADHOC_BATCHES']): ReadonlySet<string> | undefined {
  const [word] = list
  return word === 'on' ? undefined : new Set(word === 'off' ? [] : list)
}

function mayRun ({ identity }: FastifyRequest, roles: ReadonlySet<string> | undefined): boolean {
  return roles === undefined || roles.has(identity.role)
}

export default fp(namedBatches, {
  name: 'named-batches',
  dependencies: ['request-log', 'errors', 'media-type', 'auth']
})
