/**
 * Who is compared: each a process of its own on the same database, with as many connections to it
 * as there are clients.
 *
 * In charge of: how each is started and spoken to, and one answer of each before any time is taken.
 * Refuses to: measure.
 */
import { once } from 'node:events'
import { spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { led, SECRET, tokens } from './database.ts'
import type { LoadOrder, LoadResult } from './load.ts'
import { gist, makeBody, type Dialect, type Work } from './requests.ts'
import type { Stage } from '../src/dev/stage.ts'
import { useScript, useService, type Environment, type Talker } from './stage.ts'

/** As many clients as connections to the database: no contender's queue is measured. */
export const CONNECTIONS = 10

export interface Contender {
  /** Its name in the results. */
  readonly name: string
  readonly dialect: Dialect
  /** Its file under bench/, or undefined for Oneflight itself. */
  readonly script?: string
  readonly path: string
}

export const contenders = {
  oneflight: { name: 'Oneflight', dialect: 'oneflight', path: '/' },
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
  pg: { name: 'Fastify + pg', dialect: 'endpoint', script: 'peers/pg.ts', path: '/orders' },
  postgraphile: {
    name: 'PostGraphile 4',
    dialect: 'graphql',
    script: 'peers/postgraphile.ts',
    path: '/graphql'
  }
} as const satisfies Record<string, Contender>

/** One that does so many batches when it is told to. */
export interface Side {
  readonly name: string
  /** The Node process whose time counts; undefined where there is none. */
  readonly pid?: number | undefined
  /** Does exactly so many batches (a multiple of CONNECTIONS). Throws when one fails. */
  run(batches: number): Promise<Pace>
  /** What of its answer has to be the same for all; undefined where there is no answer. */
  readonly gist: unknown
}

export interface Pace {
  readonly batches: number
  readonly seconds: number
  readonly p50Ms?: number | undefined
  readonly p99Ms?: number | undefined
}

/** Starts a contender on this database; `connections` is both sides of it. */
export async function useServer (
  stage: Stage,
  contender: Contender,
  databaseUrl: string,
  { connections = CONNECTIONS, env = {} }: {
    readonly connections?: number,
    readonly env?: Environment
  } = {}
): Promise<{ readonly url: string, readonly pid: number }> {
  const settings = {
    DATABASE_URL: databaseUrl,
    POOL_SIZE: String(connections),
    JWT_SECRET: SECRET,
    ...env
  }
  const { script, path } = contender
  const { pid, url } = script === undefined
    ? await useService(stage, settings)
    : await useScript(stage, script, { env: settings }).then(({ pid, hello }) => ({
      pid,
      url: hello.url as string
    }))
  return { pid, url: `${url}${path}` }
}

/** A contender under load. It has answered one request when it is there. */
export async function useSide (
  stage: Stage,
  load: Talker,
  contender: Contender,
  work: Work,
  databaseUrl: string
): Promise<Side> {
  const { url, pid } = await useServer(stage, contender, databaseUrl)
  const { name, dialect } = contender
  return {
    name,
    pid,
    gist: gist(dialect, work, await post(url, makeBody(dialect, work))),
    async run (requests) {
      const order: LoadOrder = {
        url,
        dialect,
        work,
        connections: CONNECTIONS,
        requests,
        tokens,
        headers: {}
      }
      const { succeeded, failed, complaint, ...pace }: LoadResult = await load.ask(order)
      if (failed > 0 || succeeded !== requests) {
        throw new Error(
          `${name}: of ${requests} batches ${succeeded} succeeded, ${failed} failed: ${
            complaint ?? 'no answer'
          }`
        )
      }
      return { batches: succeeded, ...pace }
    }
  }
}

/** One request of the first caller; the parsed answer. Throws unless it is 200. */
export async function post (url: string, body: string): Promise<unknown> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${tokens[0]}` },
    body
  })
  if (answer.status !== 200) {
    throw new Error(`${url} answered ${answer.status} ${await answer.text()}`)
  }
  return answer.json()
}

/** Whether a program of PostgreSQL is on the PATH, and its version. */
export function findProgram (name: 'psql' | 'pgbench'): string | undefined {
  const { status, stdout } = spawnSync(name, ['--version'], { encoding: 'utf8' })
  return status === 0 ? /\d+(\.\d+)*/.exec(stdout)?.[0] : undefined
}

/** pgbench with the statements of the order, or undefined where there is none. */
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
        led(databaseUrl, { password: '' })
      ], {
        env: { PATH: process.env['PATH'], PGPASSWORD: password },
        stdio: ['ignore', 'pipe', 'pipe']
      })
      let said = ''
      for (const output of [child.stdout, child.stderr]) {
        output.on('data', (bytes: Buffer) => {
          said += bytes.toString()
        })
      }
      const [code] = await once(child, 'close')
      const [, done] = /actually processed: (\d+)/.exec(said) ?? []
      const [, perSecond] = /tps = ([\d.]+) \(without initial/.exec(said) ?? []
      if (code !== 0 || Number(done) !== batches) throw new Error(`pgbench: ${said}`)
      return { batches, seconds: batches / Number(perSecond) }
    }
  }
}
