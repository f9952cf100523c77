/**
 * Authentication: the bearer token or, without one, the anonymous role. An invalid token is
 * refused and never replaced by the anonymous role. Runs on the headers, before the body is read.
 * Routes use the decorator `authenticate` as an onRequest hook.
 */
import jwt, { type FastifyJWTOptions } from '@fastify/jwt'
import type { FastifyInstance, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../schemas/config.ts'
import { headerValues } from '../schemas/http.ts'
import { type Identity, maxTokenBytes, type TokenHeader } from '../schemas/token.ts'
import { checkParties, checkTimes, findClaim, namedClaims, readRole } from '../src/auth/claims.ts'
import { findKey, RemoteJwks, type TokenKeys } from '../src/auth/jwks.ts'
import { createTokenCache, openToken, type OpenedToken, type Payload } from '../src/auth/token.ts'
import type { VerificationKey } from '../src/auth/verification-key.ts'
import { failure, quote, refuse } from '../src/errors/catalogue.ts'

interface AuthOptions {
  readonly config: Config
  /** undefined: only the keys of a host are accepted, if it has registered @fastify/jwt. */
  readonly keys: TokenKeys | undefined
  /** The service's login role. A token must not select it, because it has more privileges. */
  readonly loginRole: string
}

declare module 'fastify' {
  interface FastifyRequest {
    identity: Identity
    oneflightJwtVerify: FastifyRequest['jwtVerify']
  }
}

/** Maximum time, in milliseconds, to fetch keys. */
const KEYS_TIMEOUT_MS = 5000

async function auth (app: FastifyInstance, options: AuthOptions): Promise<void> {
  const identify = await createIdentify(app, options)
  const anonymous = anonymousIdentity(options.config)
  app.decorateRequest('identity')
  app.decorate<onRequestAsyncHookHandler>('authenticate', async request => {
    const token = readToken(request)
    const identity = token === undefined ? anonymous : await identify(request, token)
    if (identity === undefined) throw failure('auth_required')
    request.identity = identity
    request.access.role = request.identity.role
  })
}

/** Returns the bearer token (RFC 6750 §2.1); undefined without an Authorization header. */
function readToken ({ raw }: FastifyRequest): string | undefined {
  const [sent, ...more] = headerValues(raw.rawHeaders, 'authorization')
  if (sent === undefined) return undefined
  if (more.length === 0 && sent.length <= maxTokenBytes) {
    const token = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)$/i.exec(sent)?.[1]
    if (token !== undefined) return token
  }
  throw refuse('token_invalid', describeForm(sent, more.length))
}

function describeForm (sent: string, more: number): string {
  if (more > 0) return 'several Authorization headers were sent'
  if (sent.length > maxTokenBytes) return `the token is longer than ${maxTokenBytes} bytes`
  // A variable that is not set, for example: HTTP parsers remove the space after "Bearer".
  if (/^Bearer$/i.test(sent)) return 'the Authorization header has no token after "Bearer"'
  return /^Bearer +/i.test(sent)
    ? 'the token is not three parts of base64url, separated by dots'
    : 'the Authorization header has another scheme than Bearer'
}

function anonymousIdentity ({ ANON_ROLE: role }: Config): Identity | undefined {
  return role === undefined ? role : { role, claims: JSON.stringify({ role }), anonymous: true }
}

async function createIdentify (
  app: FastifyInstance,
  { config, keys, loginRole }: AuthOptions
): Promise<(request: FastifyRequest, token: string) => Promise<Identity>> {
  const verify = keys !== undefined
    ? await createVerify(app, keys, config)
    : app.hasRequestDecorator('jwtVerify') ? verifyByHost : refuseToken
  const cache = createTokenCache()
  const noteMissing = createClaimNotice(app, namedClaims(config))
  const readIdentity = ({ payload, claims }: OpenedToken): Identity => {
    checkParties(payload, config)
    noteMissing(payload)
    const role = readRole(payload, config.JWT_ROLE_CLAIM, loginRole)
    return { role, claims, anonymous: false, payload }
  }
  return async (request, token) => {
    const opened = cache.get(token) ?? openToken(token)
    const key = await verify(request, opened.header, opened.key)
    if (key !== undefined && key !== opened.key) {
      opened.key = key
      cache.set(token, opened)
    }
    checkTimes(opened.payload, config, Date.now() / 1000)
    return (opened.identity ??= readIdentity(opened))
  }
}

/**
 * Returns a function that warns about claims which the first token does not have: a setting may
 * contain a name that no token ever has, and would then quietly have no effect.
 */
function createClaimNotice (
  { log }: FastifyInstance,
  names: ReturnType<typeof namedClaims>
): (payload: Payload) => void {
  let isFirst = true
  return payload => {
    if (!isFirst) return
    isFirst = false
    for (const [setting, claim] of names) {
      if (findClaim(payload, claim) !== undefined) continue
      log.warn({ setting, claim }, 'the first token does not have a claim that a setting names')
    }
  }
}

/**
 * Verifies the token of a request and returns the key that verified it, or undefined if that is not
 * known. If it is `verifiedBy`, which verified the token before, the signature is not checked
 * again. Throws `token_invalid`, or `keys_unavailable` when the keys cannot be fetched.
 */
type Verify = (
  request: FastifyRequest,
  header: TokenHeader,
  verifiedBy?: VerificationKey
) => Promise<VerificationKey | undefined>

const refuseToken: Verify = async () => {
  throw refuse('token_invalid', 'no key for tokens is configured')
}

/**
 * Asks the host's instance of @fastify/jwt, with its own options. A token is not cached, because
 * its `trusted` function may refuse it at any time. Only the token that was read is verified, no
 * matter where the host finds its own.
 */
const verifyByHost: Verify = async request => {
  const verify: FastifyJWTOptions['verify'] = { extractToken: readToken }
  await request.jwtVerify({ decode: {}, verify }).catch((error: unknown) => {
    const { code, name } = error as { readonly code?: unknown, readonly name?: unknown }
    const isExpired = code === 'FST_JWT_AUTHORIZATION_TOKEN_EXPIRED'
    throw refuse(
      isExpired ? 'token_expired' : 'token_invalid',
      `@fastify/jwt of the host refused it: ${String(code ?? name)}`
    )
  })
  return undefined
}

/** @fastify/jwt checks algorithm and signature; each of its errors becomes `token_invalid`. */
async function createVerify (
  app: FastifyInstance,
  keys: TokenKeys,
  config: Config
): Promise<Verify> {
  const find = openKeys(app, keys, config)
  /** Keys of the requests whose tokens are being verified. */
  const keyOf = new WeakMap<FastifyRequest, VerificationKey>()
  // A host may have another instance, whose decorators stay as they are.
  app.decorate('jwt', Object.create(null))
  await app.register(jwt, {
    namespace: 'oneflight',
    decoratorName: 'oneflightToken',
    secret: async (request: FastifyRequest) => (keyOf.get(request) as VerificationKey).material,
    decode: { complete: true },
    // checkTimes does it instead: fast-jwt accepts claims that are not finite numbers.
    verify: {
      algorithms: [...keys.algorithms],
      ignoreExpiration: true,
      ignoreNotBefore: true,
      extractToken: readToken
    }
  })
  return async (request, header, verifiedBy) => {
    // Checked before the key lookup, which may have to wait for a fetch.
    if (!(keys.algorithms as readonly string[]).includes(header.alg)) {
      const allowed = keys.algorithms.join(', ')
      throw refuse('token_invalid', `alg ${quote(header.alg)} is not one of ${allowed}`)
    }
    const key = await find(header)
    if (key === undefined) throw refuse('token_invalid', describeUnknownKey(header))
    if (key !== verifiedBy) {
      keyOf.set(request, key)
      await request.oneflightJwtVerify().catch(() => {
        throw refuse('token_invalid', 'the signature does not match the key')
      })
    }
    return key
  }
}

function describeUnknownKey ({ alg, kid }: TokenHeader): string {
  return kid === undefined
    ? `there is no kid, and no key for ${alg}, or several`
    : `there is no key with kid ${quote(kid)} for ${alg}, or several`
}

/** Returns what finds the key for a token; see findKey and RemoteJwks. */
function openKeys (
  app: FastifyInstance,
  { keys, algorithms }: TokenKeys,
  { REQUEST_TIMEOUT_MS: timeoutMs }: Config
): (header: TokenHeader) => ReturnType<RemoteJwks['find']> | ReturnType<typeof findKey> {
  if (!(keys instanceof URL)) return header => findKey(keys, header)
  if (isInsecure(keys)) {
    app.log.warn('JWT_JWKS_URL does not use https: an attacker on the network can replace the keys')
  }
  const remote = new RemoteJwks({
    url: keys,
    algorithms,
    // A request may wait for the fetch, and has a deadline.
    timeoutMs: Math.min(KEYS_TIMEOUT_MS, timeoutMs / 2),
    onChange: change => {
      if ('failed' in change) {
        app.log.warn({ reason: change.failed }, 'could not fetch keys from JWT_JWKS_URL')
      } else app.log.info({ keys: change.keys }, 'fetched keys from JWT_JWKS_URL')
    }
  })
  // Not onClose, which waits for requests that may themselves be waiting for keys.
  app.addHook('preClose', async () => remote.close())
  return header => remote.find(header)
}

/** True for plain http to another host. */
function isInsecure ({ protocol, hostname }: URL): boolean {
  return protocol === 'http:' && !/^(?:localhost|127\.[0-9.]+|\[::1\])$/.test(hostname)
}

export default fp(auth, { name: 'auth', dependencies: ['request-log', 'errors'] })
