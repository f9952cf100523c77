/**
 * Encrypts a connection to PostgreSQL: requests TLS, performs the handshake and verifies the server
 * as libpq's `sslmode` specifies. Plain text is refused where TLS is required, and so are bytes
 * that arrive before the handshake. Source:
 * https://www.postgresql.org/docs/18/protocol-flow.html#PROTOCOL-FLOW-SSL and …/libpq-ssl.html
 */
import { once } from 'node:events'
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

/** SSLRequest: length 8, then a code that is no protocol version. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

/** The value of `sslrootcert` that selects the trust store of the operating system. */
const SYSTEM = 'system'

/**
 * The last context and the certificates it was created from. A process usually connects to one
 * database, and parsing the system's root certificates takes 25 ms.
 */
let cached: { readonly source: string, readonly context: SecureContext } | undefined

/**
 * Reads the certificates that `tls` names, or returns undefined when TLS is off. They are read for
 * every connection, so a renewed certificate needs no restart. Throws an Error within `timeoutMs`
 * that names the file or the problem with its contents.
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
  const source = [root, cert, key].join('\n')
  if (cached?.source !== source) cached = { source, context: createContext(root, cert, key) }
  return cached.context
}

function createContext (
  root: string | undefined,
  cert: string | undefined,
  key: string | undefined
): SecureContext {
  // Node treats an empty file as an absent one and would trust every public authority.
  if (root !== undefined && root !== SYSTEM && !root.includes('CERTIFICATE-----')) {
    throw new Error('sslrootcert contains no certificate')
  }
  try {
    return createSecureContext({ ca: root === SYSTEM ? readSystemStore() : root, cert, key })
  } catch (error) {
    throw new Error(`sslrootcert, sslcert or sslkey cannot be used: ${(error as Error).message}`)
  }
}

/** The system's trust store or, where it is missing (slim container images), the one of Node. */
function readSystemStore (): string[] {
  const system = getCACertificates('system')
  return system.length > 0 ? system : getCACertificates('bundled')
}

interface StartTlsOptions {
  readonly tls: DatabaseTls
  readonly context: SecureContext
  /** Host name or address of the server; its certificate must contain it with `verify-full`. */
  readonly name: string
}

/**
 * Starts TLS on the connected socket `plain`. Returns `plain` itself when the server has no TLS and
 * the mode allows that. Mode `allow` is treated as `prefer`: libpq would try plain text first,
 * which protects less and needs a second connection. Throws an Error when the server refuses TLS,
 * sends anything unexpected or fails verification.
 */
export async function startTls (plain: Socket, options: StartTlsOptions): Promise<Socket> {
  const { tls: { mode, negotiation }, context, name } = options
  if (negotiation === 'postgres' && !await requestTls(plain)) {
    if (mode === 'prefer' || mode === 'allow') return plain
    throw new Error(`the server does not support TLS, which sslmode=${mode} requires`)
  }
  const socket = connect({
    socket: plain,
    secureContext: context,
    // The certificate is compared with `host`. The name in the handshake (SNI) must not be an
    // address.
    host: name,
    servername: isIP(name) === 0 ? name : '',
    // Always set: NODE_TLS_REJECT_UNAUTHORIZED must not weaken what the URL requires.
    rejectUnauthorized: mode === 'verify-ca' || mode === 'verify-full',
    checkServerIdentity: mode === 'verify-full' ? checkServerIdentity : () => undefined,
    ...(negotiation === 'direct' && { ALPNProtocols: ['postgresql'] })
  })
  await waitForEvent(socket, 'secureConnect')
  // Prevents protocol confusion: without ALPN, any other TLS service could receive the session.
  if (negotiation === 'direct' && socket.alpnProtocol !== 'postgresql') {
    throw new Error('the server did not select the ALPN protocol "postgresql"')
  }
  return socket
}

/**
 * Sends SSLRequest and returns whether the server accepts TLS. The socket is read in paused mode,
 * so the next user can attach listeners as usual. More than one byte means that someone on the
 * network injected plain text into the encrypted session (CVE-2021-23222).
 */
async function requestTls (plain: Socket): Promise<boolean> {
  plain.write(SSL_REQUEST)
  await waitForEvent(plain, 'readable')
  const response: unknown = plain.read()
  if (!(response instanceof Buffer)) {
    throw new Error('the server closed the connection after SSLRequest')
  }
  const answer = response.toString('latin1')
  if (answer !== 'S' && answer !== 'N') {
    throw new Error('unexpected response to SSLRequest: expected one byte, S or N')
  }
  return answer === 'S'
}

/**
 * Resolves on `event` and leaves no listener behind. Throws the socket's error, or an Error when
 * the socket closes. That includes closing right after the event, before the caller can listen for
 * `close`. There is no deadline: destroy the socket to stop the wait.
 */
export async function waitForEvent (
  socket: Socket,
  event: 'connect' | 'readable' | 'secureConnect'
): Promise<void> {
  const settled = new AbortController()
  const { signal } = settled
  try {
    await Promise.race([once(socket, event, { signal }), once(socket, 'close', { signal })])
  } finally {
    settled.abort()
  }
  if (socket.destroyed) throw new Error('the server closed the connection')
}
