/**
 * Parses DATABASE_ROUTES: a comma-separated list of `value=url`, and for all other values at most
 * one of `*=url` and `hash(16)=url|url|…`. A value, and a "," or "|" inside a URL, is
 * percent-encoded. Errors contain neither a URL nor a value, because a part of a password can look
 * like one.
 */
import { isDeepStrictEqual } from 'node:util'
import {
  describeAddress,
  type DatabaseRoute,
  type DatabaseRoutes,
  type DatabaseTarget,
  type EngineName
} from '../../schemas/database.ts'
import { decode } from './database-parameters.ts'
import { parseDatabaseUrl } from './database-url.ts'

const MAX_BUCKETS = 1024

/**
 * Throws an Error whose message is one line without secrets. `engine`: that of all databases, if it
 * is not to be recognized.
 */
export function parseDatabaseRoutes (text: string, engine?: EngineName): DatabaseRoutes {
  const draft: Draft = { engine, all: new Map(), values: new Map(), buckets: [] }
  for (const [index, entry] of text.split(',').entries()) {
    try {
      readEntry(draft, entry)
    } catch (error) {
      throw new Error(`entry ${index + 1}: ${(error as Error).message}`)
    }
  }
  const { values, buckets } = draft
  return { all: [...draft.all.values()] as unknown as DatabaseRoutes['all'], values, buckets }
}

interface Draft {
  readonly engine: EngineName | undefined
  /** The databases so far, by name. */
  readonly all: Map<string, DatabaseRoute>
  readonly values: Map<string, DatabaseRoute>
  readonly buckets: DatabaseRoute[]
}

function readEntry (draft: Draft, entry: string): void {
  const { values, buckets } = draft
  const equals = entry.indexOf('=')
  if (entry.slice(0, Math.max(0, equals)).trim() === '') {
    throw new Error('expected value=url; write a comma inside a URL as %2C')
  }
  const key = entry.slice(0, equals).trim()
  const count = readBucketCount(key)
  const urls = entry.slice(equals + 1).split('|').map(url => url.trim())
  if (count % urls.length !== 0) {
    throw new Error(
      key.startsWith('hash(')
        ? `the number of URLs must divide ${count}, got ${urls.length}`
        : 'expected one URL; write "|" inside a URL as %7C'
    )
  }
  const routes = urls.map(url =>
    addDatabase(draft, { ...parseDatabaseUrl(url), engine: draft.engine })
  )
  if (key === '*' || key.startsWith('hash(')) {
    if (buckets.length > 0) throw new Error('only one entry may be * or hash(…)')
    for (let i = 0; i < count; i++) buckets.push(routes[i % routes.length] as DatabaseRoute)
    return
  }
  const value = decode(key, 'value')
  if (values.has(value)) throw new Error('has the value of an earlier entry')
  values.set(value, routes[0] as DatabaseRoute)
}

/** The number of buckets that the key of an entry has: 1 without a hash. */
function readBucketCount (key: string): number {
  if (!/^hash\(/i.test(key)) return 1
  const count = Number(/^hash\(([1-9][0-9]{0,3})\)$/.exec(key)?.[1] ?? 0)
  if (count < 1 || count > MAX_BUCKETS) {
    throw new Error(`hash(…), in lower case, takes a number of buckets from 1 to ${MAX_BUCKETS}`)
  }
  return count
}

/** The same URL is the same database, with one pool, in any number of entries. */
function addDatabase ({ all }: Draft, target: DatabaseTarget): DatabaseRoute {
  const name = `${target.hosts.map(describeAddress).join(',')}/${target.database}`
  const [first] = all.values()
  if (first !== undefined && first.target.user !== target.user) {
    throw new Error('all URLs must have the same user')
  }
  const route = all.get(name) ?? { name, target }
  if (!isDeepStrictEqual(route.target, target)) {
    throw new Error(`has another password or other parameters for ${name} than an earlier URL`)
  }
  all.set(name, route)
  return route
}
