/**
 * The contenders: each is a separate process on the same database, with as many database
 * connections as there are clients. Starts them and sends one request before any measurement.
 */
import { spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Stage } from '../scripts/dev/stage.ts'
import { useBatches } from './batches.ts'
import { SECRET, tokens, withUrlParts } from './database.ts'
import {
  gist,
  makeBody,
  type Dialect,
  type LoadOrder,
  type LoadResult,
  type Work
} from './requests.ts'
import { useScript, useService, type Environment, type ScriptProcess } from './stage.ts'

/** There are as many clients as database connections, so no queue is measured. */
export const CONNECTIONS = 10

export interface Contender {
  /** The name in the results. */
  readonly name: string
  readonly dialect: Dialect
  /** Its script under bench/. Undefined for Oneflight. */
  readonly script?: string
  /** The folder of Oneflight, if it is not this one. */
  readonly checkout?: string
  readonly path: string
  /** Whether each request has a new Idempotency-Key. */
  readonly keyed?: boolean
  /**
   * Whether it does what a service does in production: it logs each request. A peer also has a
   * request id and metrics then, which Oneflight always has.
   */
  readonly duties?: boolean
}

export const contenders = {
  oneflight: { name: 'Oneflight', dialect: 'oneflight', path: '/' },
  'oneflight with a key': {
    name: 'Oneflight, with a key',
    dialect: 'oneflight',
    path: '/',
    keyed: true
  },
  'named batch': { name: 'Oneflight, named batch', dialect: 'named', path: '/batches/order' },
  awaits: {
    name: 'postgres.js, awaiting',
    dialect: 'endpoint',
    script: 'peers/postgres-js.ts',
    path: '/invoices'
  },
  'function in begin': {
    name: 'PL/pgSQL in sql.begin',
    dialect: 'endpoint',
    script: 'peers/plpgsql.ts',
    path: '/invoices'
  },
  'bare function': {
    name: 'PL/pgSQL, bare',
    dialect: 'endpoint',
    script: 'peers/plpgsql.ts',
    path: '/bare'
  },
  'postgres.js': {
    name: 'Fastify + postgres.js',
    dialect: 'endpoint',
    script: 'peers/postgres-js.ts',
    path: '/orders'
  },
  'word by hand': {
    name: 'Fastify + postgres.js',
    dialect: 'endpoint',
    script: 'peers/words.ts',
    path: '/'
  },
  'oneflight with its log': {
    name: 'Oneflight, with its request log',
    dialect: 'oneflight',
    path: '/',
    duties: true
  },
  'word with duties': {
    name: 'Fastify + postgres.js, same duties',
    dialect: 'endpoint',
    script: 'peers/words.ts',
    path: '/',
    duties: true
  },
  'order function': {
    name: 'PL/pgSQL in sql.begin',
    dialect: 'endpoint',
    script: 'peers/plpgsql.ts',
    path: '/orders'
  },
  'bare order function': {
    name: 'PL/pgSQL, bare',
    dialect: 'endpoint',
    script: 'peers/plpgsql.ts',
    path: '/bare-orders'
  },
  pg: { name: 'Fastify + pg', dialect: 'endpoint', script: 'peers/pg.ts', path: '/orders' },
  'pg pipelined': {
    name: 'Fastify + pg, pipelining',
    dialect: 'endpoint',
    script: 'peers/pg.ts',
    path: '/pipelined-orders'
  },
  postgraphile: {
    name: 'PostGraphile 5',
    dialect: 'graphql',
    script: 'peers/postgraphile.ts',
    path: '/graphql'
  }
} as const satisfies Record<string, Contender>

/** A contender that runs a given number of batches. */
export interface Side {
  readonly name: string
  /** The Node process whose processor time counts, if there is one. */
  readonly pid?: number | undefined
  /** Runs exactly this many batches, a multiple of CONNECTIONS. Throws if one fails. */
  run(batches: number): Promise<Pace>
  /** The part of the response that must be the same for all. Undefined without a response. */
  readonly gist: unknown
}

export interface Pace {
  readonly batches: number
  readonly seconds: number
  readonly p50Ms?: number | undefined
  readonly p99Ms?: number | undefined
}

export interface Server {
  readonly url: string
  readonly pid: number
}

interface ServerOptions {
  readonly databaseUrl: string
  /** The number of clients and of database connections. */
  readonly connections?: number
  readonly env?: Environment
}

/** Starts a contender. */
export async function useServer (
  stage: Stage,
  contender: Contender,
  { databaseUrl, connections = CONNECTIONS, env = {} }: ServerOptions
): Promise<Server> {
  const { script, checkout, path, duties = false } = contender
  const settings = {
    DATABASE_URL: databaseUrl,
    POOL_SIZE: String(connections),
    JWT_SECRET: SECRET,
    ...duties && { LOG_LEVEL: 'info', DUTIES: 'on' },
    ...env
  }
  const { pid, url } = script === undefined
    ? await useService(stage, { ...settings, BATCHES_DIR: useBatches(stage) }, checkout)
    : await useScript(stage, script, { env: settings }).then(({ pid, hello }) => ({
      pid,
      url: hello.url as string
    }))
  return { pid, url: `${url}${path}` }
}

/** The values of the first request, which are the same for all contenders. */
const firstValues = { caller: 0, random: () => 0.5 }

interface SideOptions {
  readonly server: Server
  readonly load: ScriptProcess
  readonly work: Work
}

/** Sends one request to a contender that was started. */
export async function makeSide (
  { name, dialect, path, keyed = false }: Contender,
  { server: { pid, url: serverUrl }, load, work }: SideOptions
): Promise<Side> {
  const { href: url } = new URL(path, serverUrl)
  const first = await post(url, makeBody(dialect, work, firstValues), keyed)
  return {
    name,
    pid,
    gist: gist(dialect, work, first),
    async run (requests) {
      const order: LoadOrder = {
        url,
        dialect,
        work,
        connections: CONNECTIONS,
        requests,
        tokens,
        keyed
      }
      const { succeeded, failed, firstError, ...pace }: LoadResult = await load.request(order)
      if (failed > 0 || succeeded !== requests) {
        throw new Error(
          `${name}: of ${requests} batches, ${succeeded} succeeded and ${failed} failed: ${
            firstError ?? 'no response'
          }`
        )
      }
      return { batches: succeeded, ...pace }
    }
  }
}

/**
 * Sends one request, with a new Idempotency-Key if it is `keyed`, and returns the parsed response.
 * Throws unless the status is 200.
 */
export async function post (url: string, body: string, keyed = false): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${tokens[0]}`,
      ...keyed ? { 'idempotency-key': randomUUID() } : {}
    },
    body
  })
  if (response.status !== 200) {
    throw new Error(`${url} returned ${response.status} ${await response.text()}`)
  }
  return response.json()
}

/** Returns the version of a PostgreSQL program, or undefined if it is not on the PATH. */
export function findProgram (name: 'psql' | 'pgbench'): string | undefined {
  const { status, stdout } = spawnSync(name, ['--version'], { encoding: 'utf8' })
  return status === 0 ? /\d+(\.\d+)*/.exec(stdout)?.[0] : undefined
}

/** Returns pgbench with the statements of the order, or undefined if it is not installed. */
export function pgbenchSide (databaseUrl: string): Side | undefined {
  if (findProgram('pgbench') === undefined) return undefined
  const { password } = new URL(databaseUrl)
  const fixed = [
    '-n',
    '-M',
    'prepared',
    '-c',
    String(CONNECTIONS),
    '-j',
    '1',
    '-f',
    join(import.meta.dirname, 'peers/order.sql')
  ]
  return {
    name: 'pgbench -M prepared',
    gist: undefined,
    async run (batches) {
      const child = spawn('pgbench', [
        ...fixed,
        '-t',
        String(batches / CONNECTIONS),
        withUrlParts(databaseUrl, { password: '' })
      ], {
        env: { PATH: process.env['PATH'], PGPASSWORD: password },
        stdio: ['ignore', 'pipe', 'pipe']
      })
      let output = ''
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (bytes: Buffer) => {
          output += bytes.toString()
        })
      }
      const [code] = await once(child, 'close')
      const [, done] = /actually processed: (\d+)/.exec(output) ?? []
      const [, perSecond] = /tps = ([\d.]+) \(without initial/.exec(output) ?? []
      if (code !== 0 || Number(done) !== batches) throw new Error(`pgbench: ${output}`)
      return { batches, seconds: batches / Number(perSecond) }
    }
  }
}
