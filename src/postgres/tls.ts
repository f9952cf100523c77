/**
 * Protects one connection to PostgreSQL: asks for TLS, makes the handshake, checks whom it speaks
 * to, as libpq's `sslmode` says. Refuses to go on in plain text where TLS was required, and bytes
 * that came before the handshake. Source:
 * https://www.postgresql.org/docs/18/protocol-flow.html#PROTOCOL-FLOW-SSL and …/libpq-ssl.html
 */
import { readFile } from 'node:fs/promises'
import { isIP, type Socket } from 'node:net'
import {
  checkServerIdentity,
  connect,
  createSecureContext,
  getCACertificates,
  type SecureContext
} from 'node:tls'
import type { DatabaseTls } from '../../schemas/database.ts'
import { waitForEvent } from './wait-for-event.ts'

/** SSLRequest: length 8, then a number that no protocol version has. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])
const YES = 'S'
const NO = 'N'

/** The word of `sslrootcert` that stands for the trust store of the operating system. */
const SYSTEM = 'system'

/**
 * The context made last, with what it was made of: one process has one database, and the system's
 * roots take 25 ms to parse.
 */
let last: { readonly made: string, readonly context: SecureContext } | undefined

/**
 * Reads the certificates that `tls` names, anew for every connection, so that a renewed one counts
 * without a restart. Undefined when TLS is off. Throws an Error, within `timeoutMs`, that names the
 * file or what is wrong with its contents.
 */
export async function readCredentials (
  tls: DatabaseTls,
  timeoutMs: number
): Promise<SecureContext | undefined> {
  if (tls.mode === 'disable') return undefined
  const signal = AbortSignal.timeout(Math.ceil(timeoutMs))
  const read = async (path: string | undefined): Promise<string | undefined> =>
    path === undefined || path === SYSTEM
      ? path
      : await readFile(path, { encoding: 'utf8', signal })
  const [root, cert, key] = await Promise.all([
    read(tls.rootCertPath),
    read(tls.certPath),
    read(tls.keyPath)
  ])
  const made = [root, cert, key].join('\n')
  if (last?.made !== made) last = { made, context: createContext(root, cert, key) }
  return last.context
}

function createContext (
  root: string | undefined,
  cert: string | undefined,
  key: string | undefined
): SecureContext {
  // Node takes an empty file for "not given" and would trust every public authority instead of
  // none.
  if (root !== undefined && root !== SYSTEM && !root.includes('CERTIFICATE-----')) {
    throw new Error('sslrootcert holds no certificate')
  }
  try {
    return createSecureContext({ ca: root === SYSTEM ? readSystemStore() : root, cert, key })
  } catch (error) {
    throw new Error(`sslrootcert, sslcert or sslkey cannot be used: ${(error as Error).message}`)
  }
}

/**
 * The system's trust store or, where there is none (slim container images), the one that Node
 * brings.
 */
function readSystemStore (): string[] {
  const system = getCACertificates('system')
  return system.length > 0 ? system : getCACertificates('bundled')
}

export interface StartTlsOptions {
  readonly tls: DatabaseTls
  readonly context: SecureContext
  /**
   * Name or address the server was reached by: what its certificate must hold under `verify-full`.
   */
  readonly name: string
  /** Stream options of the new socket. */
  readonly buffers: { readonly highWaterMark: number }
}

/**
 * Makes the connected socket `plain` a TLS socket, or gives it back as it is when the server has no
 * TLS and the mode allows that (`allow` is treated as `prefer`: libpq would try plain text first,
 * which protects less and needs a second connection). Throws an Error when the server refuses TLS,
 * sends anything unexpected or is not the one it should be.
 */
export async function startTls (plain: Socket, securing: StartTlsOptions): Promise<Socket> {
  const { tls: { mode, negotiation }, context, name, buffers } = securing
  if (negotiation === 'postgres' && !await askForTls(plain)) {
    if (mode === 'prefer' || mode === 'allow') return plain
    throw new Error(`the server does not support TLS, which sslmode=${mode} requires`)
  }
  const socket = connect({
    socket: plain,
    secureContext: context,
    ...buffers,
    // `host` is what the certificate is compared with; the name in the handshake (SNI) must not be
    // an address.
    host: name,
    servername: isIP(name) === 0 ? name : '',
    // Said in every case: NODE_TLS_REJECT_UNAUTHORIZED must not weaken what the URL asks for.
    rejectUnauthorized: mode === 'verify-ca' || mode === 'verify-full',
    checkServerIdentity: mode === 'verify-full' ? checkServerIdentity : () => undefined,
    ...(negotiation === 'direct' && { ALPNProtocols: ['postgresql'] })
  })
  await waitForEvent(socket, 'secureConnect')
  // Without it the other side may be any TLS service that was made to listen to PostgreSQL's bytes.
  if (negotiation === 'direct' && socket.alpnProtocol !== 'postgresql') {
    throw new Error('the server did not agree to speak PostgreSQL (ALPN)')
  }
  return socket
}

/**
 * Sends SSLRequest; whether the server said yes. Read in paused mode, so that the socket goes on as
 * if nobody had read. More than the one byte means that somebody in the middle slipped plain text
 * into the encrypted session (CVE-2021-23222).
 */
async function askForTls (plain: Socket): Promise<boolean> {
  plain.write(SSL_REQUEST)
  await waitForEvent(plain, 'readable')
  const answer: unknown = plain.read()
  if (!(answer instanceof Buffer)) {
    throw new Error('the server closed the connection when asked for TLS')
  }
  const word = answer.toString('latin1')
  if (word !== YES && word !== NO) {
    throw new Error(
      'the server gave more or other than the one byte that answers a request for TLS'
    )
  }
  return word === YES
}
