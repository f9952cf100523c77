/**
 * Hostile requests as bytes: batches, named batches and headers, of any size up to the limits.
 */
import { signToken } from '../../../src/auth/token.ts'
import { MAX_BODY_BYTES, nameOf, writeBody, type Recipe } from './bodies.ts'
import { headerParts, type Headers } from './headers.ts'
import { namedParts, type NamedPart } from './named.ts'
import type { Part } from './part.ts'
import { partGroups } from './parts.ts'

export interface HostileRequest {
  readonly name: string
  readonly bytes: Buffer
}

export interface RequestOptions {
  /** Random numbers from 0 to 1. */
  readonly random: () => number
  /** JWT_SECRET of the service. */
  readonly secret: string
  readonly role: string
}

/** The smallest body; it has a few of each part. */
const MIN_BODY_BYTES = 1000
/** Node refuses more bytes of headers. */
const MAX_HEADER_BYTES = 15_500

/** A batch that the service accepts. */
const SMALL = '[{"id":"p","op":"select","table":"t","where":{"id":{"eq":1}}}]'

/** Creates a function that returns the next request. */
export function createRequests ({ random, secret, role }: RequestOptions): () => HostileRequest {
  const choose = <Item>(list: readonly Item[]): Item =>
    list[Math.floor(random() * list.length)] as Item
  /** Any order of magnitude is possible, a smaller one is more likely: it takes less time. */
  const size = (least: number, most: number): number =>
    Math.round(least * (most / least) ** (random() ** 2))
  const exp = Math.floor(Date.now() / 1000) + 86_400
  const authorization = `Bearer ${signToken({ role, sub: 'hostile', exp }, secret)}`
  const common: Headers = [['authorization', authorization], ['content-type', 'application/json']]
  let count = 0
  /** Other names and texts each time, so that nothing that is kept helps. */
  const vary = (body: string): string => body.replaceAll('"x', `"x${count.toString(36)}.`)

  const batch = (chosen: Recipe['parts']): HostileRequest => {
    const recipe = { parts: chosen, operations: choose([1, 1, 1, 10, 100]) }
    const body = writeBody(recipe, 1, size(MIN_BODY_BYTES, MAX_BODY_BYTES))
    return { name: nameOf(recipe), bytes: encodeRequest('/', common, vary(body)) }
  }
  const named = (): HostileRequest => {
    const part = choose(namedParts)
    const body = writeParameters(part, size(MIN_BODY_BYTES, MAX_BODY_BYTES))
    const bytes = encodeRequest(`/batches/${part.batch}`, common, vary(body))
    return { name: `${part.batch}: ${part.name}`, bytes }
  }
  const header = (): HostileRequest => {
    const { name, make } = choose(headerParts)
    const made = make(size(100, MAX_HEADER_BYTES), secret)
    const own = new Set(made.map(([name]) => name))
    const others = common.filter(([name]) => !own.has(name))
    return { name, bytes: encodeRequest('/', [...others, ...made], SMALL) }
  }
  const part = (): Part => choose(choose(partGroups))
  return () => {
    count++
    const kind = random()
    if (kind < 0.5) return batch([part()])
    if (kind < 0.75) return batch([part(), part()])
    return kind < 0.9 ? named() : header()
  }
}

/** Writes parameters of at most this many bytes; the later ones of a list may be longer. */
export function writeParameters ({ make }: NamedPart, bytes: number): string {
  let n = 64
  for (;;) {
    const size = Buffer.byteLength(make(n))
    const next = Math.max(1, Math.floor(n * Math.min(bytes / size, 64)))
    if (next === n || (size <= bytes && size > 0.9 * bytes)) return make(n)
    n = next
  }
}

/** Encodes a POST request. */
export function encodeRequest (path: string, headers: Headers, body: string): Buffer {
  const bytes = Buffer.from(body)
  const own = new Set(headers.map(([name]) => name))
  const lines = [
    ...own.has('host') ? [] : [['host', 'localhost'] as const],
    ['content-length', String(bytes.length)] as const,
    ...headers
  ].map(([name, value]) => `${name}: ${value}\r\n`)
  const head = `POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
  return Buffer.concat([Buffer.from(head, 'latin1'), bytes])
}
