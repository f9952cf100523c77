/**
 * `oneflight token`: signs a token with the secret of the service, for development and for tests of
 * a deployment. The token has the issuer, the audience and the role claim that the service expects.
 */
import { readTtl } from '../../schemas/http.ts'
import { signToken } from '../auth/token.ts'
import { readSigning, type Signing } from '../config/config.ts'
import type { Failure } from '../errors/catalogue.ts'
import { isObject, parseJson, type Json } from '../json/parse.ts'
import { readSettings, UsageError } from './arguments.ts'
import type { TokenOptions } from './commands.ts'
import { type CliContext, visible } from './terminal.ts'

type Claims = Readonly<Record<string, unknown>>

/** Latest time that JavaScript can print, in seconds since 1970. */
const LATEST = 8_640_000_000_000

/**
 * Prints the token to standard output and its claims to standard error. Resolves with the exit
 * code. Throws a UsageError when an option is invalid or JWT_SECRET is not set.
 */
export function printToken (options: TokenOptions, { env, stdout, stderr }: CliContext): number {
  const signing = readSettings(readSigning, env)
  const expires = Math.floor(Date.now() / 1000) + readDuration(options['expires-in'] ?? '1h')
  if (expires > LATEST) throw new UsageError('--expires-in is too far in the future')
  const claims = buildClaims(options, signing, expires)
  stdout.write(`${signToken(claims, signing.JWT_SECRET)}\n`)
  const until = new Date(expires * 1000).toISOString().replace('.000', '')
  stderr.write(visible(`oneflight: signed ${JSON.stringify(claims)}, expires ${until}`) + '\n')
  return 0
}

function readDuration (text: string): number {
  if (!/^[1-9]\d{0,11}[smhd]$/.test(text)) {
    throw new UsageError(`invalid --expires-in "${text}" (expected a time such as 90s, 15m or 30d)`)
  }
  return readTtl(text)
}

function buildClaims (
  options: TokenOptions,
  { JWT_ISS: iss, JWT_AUD: audiences, JWT_ROLE_CLAIM: rolePath }: Signing,
  exp: number
): Claims {
  const { role, sub } = options
  const given = options.claims === undefined ? {} : readClaims(options.claims)
  const [roleClaim, ...below] = (URL.canParse(rolePath) ? [rolePath] : rolePath.split('.')) as
    [string, ...string[]]
  const set: Claims = {
    ...role === undefined ? {} : { [roleClaim]: nest(below, role) },
    ...sub === undefined ? {} : { sub },
    exp
  }
  const twice = Object.keys(set).find(name => Object.hasOwn(given, name))
  if (twice !== undefined) {
    throw new UsageError(`--claims must not contain "${twice}", which another option sets`)
  }
  if (role === undefined && !Object.hasOwn(given, roleClaim)) {
    throw new UsageError('--role is required: the database role of the token')
  }
  return {
    ...iss === undefined ? {} : { iss },
    ...audiences === undefined ? {} : { aud: audiences[0] },
    ...set,
    ...given
  }
}

/** The value at a path of members: `nest(['a', 'b'], 1)` is `{a: {b: 1}}`. */
function nest (path: readonly string[], value: string): unknown {
  return path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value)
}

/** Numbers keep every digit. */
function readClaims (text: string): Claims {
  let claims: Json
  try {
    claims = parseJson(Buffer.from(text))
  } catch (error) {
    throw new UsageError((error as Failure).message.replace('The body', '--claims'))
  }
  if (isObject(claims)) return claims
  throw new UsageError('--claims must be a JSON object, for example \'{"org": 7}\'')
}
