/**
 * Headers with as much of each of their parts as Node accepts: 16 KiB of all headers together.
 */
import { signToken } from '../../../src/auth/token.ts'

/** Names and values, in this order; a name can be there several times. */
export type Headers = ReadonlyArray<readonly [name: string, value: string]>

export interface HeaderPart {
  readonly name: string
  /** `n` is about the number of bytes of the headers. */
  readonly make: (n: number, secret: string) => Headers
}

const repeat = (text: string, n: number): string => text.repeat(Math.ceil(n / text.length))

/** One header whose value is a text that is repeated, between a beginning and an end. */
const texts: ReadonlyArray<readonly [name: string, start: string, text: string, end?: string]> = [
  ['content-type', 'application/json;', ' ', 'x'],
  ['content-type', 'application/json', ' ', ';'],
  ['content-type', 'application/json', '; ', 'x'],
  ['content-type', 'application/json;', ' \t', 'charset=utf-8x'],
  ['content-type', 'application/json; charset="', 'utf-8', '"'],
  ['content-type', '', 'application/json'],
  ['content-encoding', '', 'gzip, '],
  ['authorization', 'Bearer', ' ', 'x'],
  ['authorization', 'Bearer ', 'a.'],
  ['authorization', 'Bearer a.', 'b', '.c'],
  ['authorization', '', 'Bearer '],
  ['authorization', 'Bearer ', 'eyJ', '.e30.x'],
  ['prefer', '', 'x,'],
  ['prefer', '', ', '],
  ['prefer', 'tx', ' ', '=commit'],
  ['prefer', 'tx=', '"'],
  ['prefer', 'tx="', '\\"'],
  ['prefer', '', 'tx=commit; '],
  ['prefer', 'tx=commit', ' ;', 'x y'],
  ['prefer', 'tx=commit', ';a=b'],
  ['prefer', 'tx=commit;', ' ', '"'],
  ['prefer', '', '"a",'],
  ['prefer', '', '"', ','],
  ['prefer', '', 'a"', ','],
  ['prefer', 'handling=strict, ', '\u00e9'],
  ['prefer', 'handling=strict, ', 'x;;'],
  ['idempotency-key', '', 'k'],
  ['idempotency-key', '"', '\\\\', '"'],
  ['idempotency-key', '"', '\\'],
  ['idempotency-key', '"', ' ', 'x'],
  ['idempotency-key', '"', '\u00e9', '"'],
  ['x-request-id', '', 'a'],
  ['x-request-id', '', 'a/'],
  ['traceparent', '00-', '0', '-01'],
  ['traceparent', '', '00-'],
  ['tracestate', '', 'a=b,'],
  ['tracestate', '', 'a'],
  ['baggage', '', 'a=b,'],
  ['oneflight-position', '', '1'],
  ['oneflight-position', '', '0/'],
  ['origin', 'https://', 'a.'],
  ['origin', '', 'a'],
  ['access-control-request-headers', '', 'a,'],
  ['accept', '', 'a/b;q=0.1, '],
  ['accept', '', ';', 'x'],
  ['accept-encoding', '', 'gzip;q=0.5, '],
  ['accept-encoding', 'br', ';', 'q=1'],
  ['accept-language', '', 'de, '],
  ['cookie', '', 'a=b; '],
  ['expect', '', '100-continue, '],
  ['connection', '', 'x-a, '],
  ['host', '', 'a.'],
  ['x-forwarded-for', '', '1.1.1.1, '],
  ['range', 'bytes=', '0-1,']
]

/** Claims of a token that the service accepts. */
const claims: Readonly<Record<string, (n: number) => object>> = {
  'many claims': n => Object.fromEntries(numbers(n / 8).map(i => [`c${i}`, i])),
  'a long claim': n => ({ sub: 'x'.repeat(n) }),
  'a long role': n => ({ role: 'x'.repeat(n) }),
  'a role of quotes': n => ({ role: '"'.repeat(Math.min(n, 63)) }),
  'a list of roles': n => ({ role: numbers(n / 4) }),
  'deep claims': n => ({ deep: JSON.parse(`${'['.repeat(n / 3)}${']'.repeat(n / 3)}`) as unknown }),
  'escaped claims': n => ({ sub: '\u0001'.repeat(n / 6) }),
  'quotes in claims': n => ({ sub: "'".repeat(n) }),
  audiences: n => ({ aud: numbers(n / 8).map(String) })
}

function numbers (n: number): readonly number[] {
  return Array.from({ length: Math.ceil(n) }, (_, i) => i)
}

function tokenOf (more: object, secret: string): string {
  const exp = Math.floor(Date.now() / 1000) + 3600
  return `Bearer ${signToken({ exp, role: 'shop_user', ...more }, secret)}`
}

export const headerParts: readonly HeaderPart[] = [
  ...texts.map(([name, start, text, end = '']): HeaderPart => ({
    name: `${name}: ${start}${text}…${end}`, make: n => [[name, `${start}${repeat(text, n)}${end}`]]
  })),
  ...Object.entries(claims).map(([name, make]): HeaderPart => ({
    name: `token with ${name}`,
    // Base64 makes four letters of three bytes.
    make: (n, secret) => [['authorization', tokenOf(make(0.7 * n), secret)]]
  })),
  {
    name: 'many headers', make: n => numbers(Math.min(1900, n / 8)).map(i => [`x${i}`, ''] as const)
  },
  { name: 'one header many times', make: n => numbers(n / 6).map(() => ['a', ''] as const) },
  {
    name: 'Prefer many times',
    make: n => numbers(n / 24).map(i => ['prefer', `a${i}="${i}"`] as const)
  },
  {
    name: 'Authorization many times',
    make: n => numbers(n / 24).map(() => ['authorization', 'Bearer x'] as const)
  },
  {
    name: 'Content-Type many times',
    make: n => numbers(n / 40).map(() => ['content-type', 'application/json'] as const)
  }
]
