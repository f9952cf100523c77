/**
 * Who asks: the bearer token or, without one, the anonymous role. A token that is present but bad is never taken for no token.
 * Runs on headers alone, before a byte of the body is read. The decorator `authenticate` is a hook for routes that need it.
 */
import { isUtf8 } from 'node:buffer'
import jwt from '@fastify/jwt'
import { Value } from '@sinclair/typebox/value'
import type { FastifyInstance, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { isReservedRole, TimeClaims, type Identity } from '../schemas/claims.ts'
import type { Config } from '../schemas/config.ts'
import { maxIdentifierBytes } from '../schemas/operation.ts'
import { failure } from '../src/errors/catalogue.ts'

export interface AuthOptions {
  readonly config: Config
  /** The role that the service logs in with: to be it is a privilege no token may give. */
  readonly loginRole: string
}

declare module 'fastify' {
  interface FastifyRequest { identity: Identity }
}

type Payload = Readonly<Record<string, unknown>>

async function auth (app: FastifyInstance, { config, loginRole }: AuthOptions): Promise<void> {
  const { JWT_SECRET: secret, ANON_ROLE: anonymousRole } = config
  if (secret !== undefined) {
    // Times are checked below: fast-jwt lets claims pass that are no finite numbers.
    await app.register(jwt, { secret, verify: { algorithms: ['HS256', 'HS384', 'HS512'], ignoreExpiration: true, ignoreNotBefore: true } })
  }
  app.decorateRequest('identity')
  const authenticate: onRequestAsyncHookHandler = async request => {
    const token = readToken(request)
    if (token === undefined) {
      if (anonymousRole === undefined) throw failure('auth_required')
      request.identity = { role: anonymousRole, claims: JSON.stringify({ role: anonymousRole }), anonymous: true }
    } else {
      if (secret === undefined) throw failure('token_invalid', 'This service takes no tokens.')
      const payload = verify(app, token)
      checkTimes(payload, config, Date.now() / 1000)
      checkParties(payload, config)
      const role = readRole(payload, config.JWT_ROLE_CLAIM)
      if (isForbidden(role, loginRole)) throw failure('role_denied')
      request.identity = { role, claims: payloadText(token), anonymous: false }
    }
    request.access.role = request.identity.role
  }
  app.decorate('authenticate', authenticate)
}

/** The one bearer token (RFC 6750 §2.1); undefined when there is no Authorization header at all. */
function readToken ({ raw }: FastifyRequest): string | undefined {
  const [sent, ...more] = raw.headersDistinct['authorization'] ?? []
  if (sent === undefined) return undefined
  const token = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)$/i.exec(sent)?.[1]
  if (more.length > 0 || token === undefined) throw failure('token_invalid')
  return token
}

/** Signature and algorithm are the library's business; whatever it finds wrong, the answer is 401. */
function verify (app: FastifyInstance, token: string): Payload {
  try {
    return app.jwt.verify<Payload>(token)
  } catch {
    throw failure('token_invalid')
  }
}

/** RFC 7519 §4.1.4–6; all in seconds. */
function checkTimes (payload: Payload, { JWT_REQUIRE_EXP: required, JWT_LEEWAY_S: leeway }: Config, now: number): void {
  if (!Value.Check(TimeClaims, payload)) throw failure('token_claims_invalid', 'exp, nbf and iat must be finite numbers.')
  const { exp, nbf = -Infinity, iat = -Infinity } = payload
  if (exp === undefined && required) throw failure('token_claims_invalid', 'The token has no exp.')
  if (exp !== undefined && now >= exp + leeway) throw failure('token_expired')
  if (now < Math.max(nbf, iat) - leeway) throw failure('token_not_active')
}

/** RFC 7519 §4.1.1 and §4.1.3: what is configured must be there and fit. */
function checkParties ({ aud, iss }: Payload, { JWT_AUD: audiences, JWT_ISS: issuer }: Config): void {
  if (issuer !== undefined && iss !== issuer) throw failure('token_claims_invalid', 'The token is of another issuer.')
  const named: unknown[] = Array.isArray(aud) ? aud : [aud]
  if (audiences !== undefined && !named.some(name => typeof name === 'string' && audiences.includes(name))) {
    throw failure('token_claims_invalid', 'The token is meant for another audience.')
  }
}

/** The role at a dotted path of claims. */
function readRole (payload: Payload, path: string): string {
  let found: unknown = payload
  for (const name of path.split('.')) {
    found = typeof found === 'object' && found !== null && Object.hasOwn(found, name) ? (found as Payload)[name] : undefined
  }
  if (found === undefined) throw failure('role_missing')
  if (typeof found !== 'string' || found === '') throw failure('token_claims_invalid', 'The role must be a string.')
  return found
}

/**
 * Roles that are refused before any SQL, with the answer for an unknown role: reserved ones, the login role itself, and names that are
 * too long or hold half a character, which would become another one.
 */
function isForbidden (role: string, loginRole: string): boolean {
  return isReservedRole(role) || role === loginRole || role.includes('\0') || !role.isWellFormed() || Buffer.byteLength(role) > maxIdentifierBytes
}

/** The payload as it was signed: no number is rounded, no byte replaced on the way to `request.jwt.claims`. */
function payloadText (token: string): string {
  const bytes = Buffer.from(token.split('.')[1] as string, 'base64url')
  if (!isUtf8(bytes)) throw failure('token_invalid', 'The payload is not valid UTF-8.')
  return bytes.toString()
}

export default fp(auth, { name: 'auth', fastify: '5.x', dependencies: ['tracing', 'errors'] })
