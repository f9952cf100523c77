/**
 * Who may run what: named batches, which the path or a message names, and batches that the client
 * sends. `findNamedBatch` and `admitAdhoc` are onRequest hooks after `authenticate`, before the
 * body is read. A route whose body names the batch uses `list` and `find`.
 */
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Config } from '../../schemas/config.ts'
import { failure } from '../../src/errors/catalogue.ts'
import { unknownBatch, type NamedBatch, type NamedBatches } from '../../src/named/named-batch.ts'
import { findUploadTarget } from '../../src/named/upload-parameters.ts'

declare module 'fastify' {
  interface FastifyRequest {
    namedBatch: NamedBatch | undefined
  }
}

export type NamedAccess = ReturnType<typeof createNamedAccess>

export function createNamedAccess (
  app: FastifyInstance,
  config: Config,
  batches: () => NamedBatches
) {
  const adhoc = rolesOf(config.ADHOC_BATCHES)
  app.decorateRequest('namedBatch', undefined)
  /** The named batches that the identity of a request may run. */
  const list = (request: FastifyRequest): readonly NamedBatch[] =>
    [...batches().values()].filter(({ roles }) => mayRun(request, roles))
  /**
   * Returns the batch, which becomes that of the request. Throws `batch_unknown`, or
   * `role_forbidden` if it is not for the role.
   */
  const find = (request: FastifyRequest, name: string): NamedBatch => {
    const batch = batches().get(name)
    if (batch === undefined) throw unknownBatch(name, list(request).map(known => known.name))
    request.namedBatch = batch
    request.access.batch = name
    if (!mayRun(request, batch.roles)) throw failure('role_forbidden')
    return batch
  }
  const findNamedBatch: onRequestHookHandler = (request, _reply, done) => {
    const batch = find(request, (request.params as { readonly name: string }).name)
    if (request.upload !== undefined) findUploadTarget(batch)
    done()
  }
  const admitAdhoc: onRequestHookHandler = (request, _reply, done) =>
    done(mayRun(request, adhoc) ? undefined : failure('adhoc_forbidden'))
  return { list, find, findNamedBatch, admitAdhoc }
}

/** The roles of ADHOC_BATCHES; undefined: every role. `on` and `off` are not roles. */
function rolesOf (list: Config['ADHOC_BATCHES']): ReadonlySet<string> | undefined {
  const [word] = list
  return word === 'on' ? undefined : new Set(word === 'off' ? [] : list)
}

function mayRun ({ identity }: FastifyRequest, roles: ReadonlySet<string> | undefined): boolean {
  return roles === undefined || roles.has(identity.role)
}
