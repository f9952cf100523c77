/**
 * Who asks: the bearer token or, without one, the anonymous role. A token that is present but bad
 * is never taken for no token. Runs on headers alone, before a byte of the body is read. The
 * decorator `authenticate` is a hook for routes that need it.
 */
import jwt from '@fastify/jwt'
import type { FastifyInstance, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Identity } from '../schemas/claims.ts'
import type { Config } from '../schemas/config.ts'
import { maxTokenBytes, type TokenHeader } from '../schemas/token.ts'
import { checkParties, checkTimes, readRole } from '../src/auth/claims.ts'
import type { VerificationKey } from '../src/auth/verification-key.ts'
import { createTokenCache } from '../src/auth/token-cache.ts'
import { openKeySource, type TokenKeys } from '../src/auth/key-source.ts'
import { openToken } from '../src/auth/token.ts'
import { failure } from '../src/errors/catalogue.ts'

export interface AuthOptions {
  readonly config: Config
  /** undefined: the service takes no tokens. */
  readonly keys: TokenKeys | undefined
  /** The role that the service logs in with: to be it is a privilege no token may give. */
  readonly loginRole: string
}

declare module 'fastify' {
  interface FastifyRequest {
    identity: Identity
  }
}

async function auth (
  app: FastifyInstance,
  { config, keys, loginRole }: AuthOptions
): Promise<void> {
  const { ANON_ROLE: anonymousRole } = config
  const verify = keys === undefined ? takeNone : await registerVerifier(app, keys, config)
  const tokens = createTokenCache()
  app.decorateRequest('identity')
  const authenticate: onRequestAsyncHookHandler = async request => {
    const token = readToken(request)
    if (token === undefined) {
      if (anonymousRole === undefined) throw failure('auth_required')
      request.identity = {
        role: anonymousRole,
        claims: JSON.stringify({ role: anonymousRole }),
        anonymous: true
      }
    } else {
      const known = tokens.get(token)
      const { header, payload, claims } = known ?? openToken(token)
      const key = await verify(request, header, known?.key)
      if (known?.key !== key) tokens.set(token, { header, payload, claims, key })
      checkTimes(payload, config, Date.now() / 1000)
      checkParties(payload, config)
      request.identity = {
        role: readRole(payload, config.JWT_ROLE_CLAIM, loginRole),
        claims,
        anonymous: false
      }
    }
    request.access.role = request.identity.role
  }
  app.decorate('authenticate', authenticate)
}

/** The one bearer token (RFC 6750 §2.1); undefined when there is no Authorization header at all. */
function readToken ({ raw }: FastifyRequest): string | undefined {
  const [sent, ...more] = raw.headersDistinct['authorization'] ?? []
  if (sent === undefined) return undefined
  if (more.length > 0 || sent.length > maxTokenBytes) throw failure('token_invalid')
  const token = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)$/i.exec(sent)?.[1]
  if (token === undefined) throw failure('token_invalid')
  return token
}

/**
 * Holds a request against its token, whose header was read, and answers the key that verified it.
 * Its signature was found good by `known` already: when that is still the token's key it is not
 * looked at again. Throws `token_invalid`, or `keys_unavailable` when nobody can tell.
 */
type Verify = (
  request: FastifyRequest,
  header: TokenHeader,
  known?: VerificationKey
) => Promise<VerificationKey>

const takeNone: Verify = async () => {
  throw failure('token_invalid', 'This service takes no tokens.')
}

/**
 * Signature and algorithm are the library's business; whatever it finds wrong, the answer is 401.
 */
async function registerVerifier (
  app: FastifyInstance,
  keys: TokenKeys,
  config: Config
): Promise<Verify> {
  const source = openKeySource(keys, {
    // A request may wait for it, and has a deadline.
    timeoutMs: Math.min(KEYS_TIMEOUT_MS, config.REQUEST_TIMEOUT_MS / 2),
    onChange: change => {
      if ('failed' in change) {
        app.log.warn({ reason: change.failed }, 'the keys of JWT_JWKS_URL cannot be fetched')
      } else app.log.info({ keys: change.keys }, 'the keys of JWT_JWKS_URL were fetched')
    }
  })
  // Before requests are waited for, and not onClose, which comes after them: one may wait for keys.
  app.addHook('preClose', async () => source.close())
  if (keys.material.kind === 'url' && isOpen(keys.material.url)) {
    app.log.warn('JWT_JWKS_URL is not https: whoever stands between can name keys of their own')
  }
  /** Keys of requests whose tokens are being verified. */
  const found = new WeakMap<FastifyRequest, VerificationKey>()
  await app.register(jwt, {
    secret: async (request: FastifyRequest) => (found.get(request) as VerificationKey).material,
    decode: { complete: true },
    // Times are checked here: fast-jwt lets claims pass that are no finite numbers.
    verify: {
      algorithms: [...keys.algorithms],
      ignoreExpiration: true,
      ignoreNotBefore: true,
      extractToken: readToken
    }
  })
  return async (request, header, known) => {
    // Said before any key is looked for: nobody needs to wait for keys to hear it.
    if (!(keys.algorithms as readonly string[]).includes(header.alg)) throw failure('token_invalid')
    const key = await source.find(header)
    if (key === undefined) throw failure('token_invalid')
    if (key !== known) {
      found.set(request, key)
      await request.jwtVerify().catch(() => {
        throw failure('token_invalid')
      })
    }
    return key
  }
}

const KEYS_TIMEOUT_MS = 5000

/** Whether others can read and change what comes from there. */
function isOpen ({ protocol, hostname }: URL): boolean {
  return protocol === 'http:' && !/^(?:localhost|127\.[0-9.]+|\[::1\])$/.test(hostname)
}

export default fp(auth, { name: 'auth', fastify: '5.x', dependencies: ['request-log', 'errors'] })
