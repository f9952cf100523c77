/**
 * Who may run what: named batches, which the path names, and batches that the client sends. Routes
 * use the decorators as onRequest hooks after `authenticate`, before the body is read.
 */
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../schemas/config.ts'
import { failure } from '../src/errors/catalogue.ts'
import type { NamedBatch, NamedBatches } from '../src/named/named-batch.ts'

export interface NamedBatchesOptions {
  readonly config: Config
  /** Returns the current batches. */
  readonly batches: () => NamedBatches
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The batch that the path names. */
    namedBatch: NamedBatch | undefined
  }
}

async function namedBatches (
  app: FastifyInstance,
  { config, batches }: NamedBatchesOptions
): Promise<void> {
  const adhoc = rolesOf(config.ADHOC_BATCHES)
  app.decorateRequest('namedBatch', undefined)
  const findNamedBatch: onRequestHookHandler = (request, _reply, done) => {
    const { name } = request.params as { readonly name: string }
    const batch = batches().get(name)
    if (batch === undefined) return done(failure('batch_unknown'))
    request.namedBatch = batch
    request.access.batch = name
    done(mayRun(request, batch.roles) ? undefined : failure('role_forbidden'))
  }
  const admitAdhoc: onRequestHookHandler = (request, _reply, done) => {
    done(mayRun(request, adhoc) ? undefined : failure('adhoc_forbidden'))
  }
  app.decorate('findNamedBatch', findNamedBatch)
  app.decorate('admitAdhoc', admitAdhoc)
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
  fastify: '5.x',
  dependencies: ['request-log', 'errors', 'auth']
})
