/**
 * Runs the stages between the body of a request and the bytes for PostgreSQL, in this process, and
 * measures each. In the service they run in one piece of the event loop.
 */
import { readConfig } from '../../../src/config/config.ts'
import { Failure } from '../../../src/errors/catalogue.ts'
import { planNamed, readParameters, type NamedBatch } from '../../../src/named/named-batch.ts'
import { readNamedBatch } from '../../../src/named/read-files.ts'
import { BatchPlanner, type PlannedBatch } from '../../../src/plan/plan-batch.ts'
import { batchLimits, readBatch } from '../../../src/plan/check/read-batch.ts'
import { MessageWriter } from '../../../src/postgres/messages.ts'
import { noPreparedStatements, toRequests } from '../../../src/postgres/prepared-statements.ts'
import { Compiler } from '../../../src/sql/compiler.ts'
import type { Statement } from '../../../src/sql/statement/statement.ts'
import { NO_SUGGESTIONS } from '../../../src/transaction/look-up.ts'
import { batchSettings } from '../../../src/transaction/run-batch.ts'
import { toFailure } from '../../../src/transaction/to-failure.ts'
import { namedBatches } from './named.ts'

/** Processor time of this thread, in milliseconds, by stage. */
export type Stages = ReadonlyMap<string, number>

export interface Measured {
  readonly stages: Stages
  /** The first failure that the body causes; undefined: none. */
  readonly failure: unknown
  /** Bytes of the response of a body that is refused. */
  readonly answerBytes: number
  /** Bytes for PostgreSQL, of the run with most. */
  readonly sentBytes: number
}

/** The default limits of the service. */
const { config } = readConfig({
  DATABASE_URL: 'postgres://login@localhost/test', ANON_ROLE: 'user'
})
const limits = { ...batchLimits(config), maxBytes: config.MAX_RESPONSE_BYTES }

/** Names and types of the columns of both tables; see columnTypesQuery. */
const columns: ReadonlyArray<readonly [name: string, oid: number]> = [
  ['id', 23],
  ['a', 25],
  ['b', 23],
  ['j', 3802],
  ['n', 1700],
  ['ts', 1184],
  ['t_id', 23],
  ['tags', 1009],
  ...Array.from({ length: 1590 }, (_, i) => [`c${1589 - i}`, 23] as const)
]

/** A compiler that knows the tables and functions which the bodies name. */
function createCompiler (): Compiler {
  const compiler = new Compiler(batchSettings(config))
  compiler.columnTypes.remember(JSON.stringify(['t', 'u'].map(name => ({
    schema: 'public',
    name,
    columns: columns.map(column => [...column, -1])
  }))))
  compiler.functionTypes.remember(JSON.stringify([{
    schema: 'public',
    name: 'f',
    version: '1',
    types: [],
    // PostgreSQL has at most 100 parameters.
    variants: [[
      100,
      columns.slice(-100).map(([name]) => [name, 'pg_catalog', 'jsonb', 'b', 'i', 3802]),
      true,
      1,
      false
    ]]
  }]))
  return compiler
}

const compiler = createCompiler()

const request = {
  id: 'r',
  identity: { role: 'user', claims: '{"role":"user"}', anonymous: false },
  preferences: {
    tx: 'commit', isolation: 'read-committed', access: 'read-write', return: 'representation'
  },
  idempotencyKey: undefined,
  trace: undefined
} as never

/** Errors of PostgreSQL that are described with the words of the request. */
const errors = [
  { code: '42703', message: 'column t.c1 does not exist' },
  { code: '42883', message: 'operator does not exist: integer ~ unknown' },
  { code: '42P01', message: 'relation "public.t" does not exist' },
  { code: '42804', message: 'argument must be type boolean', routine: 'coerce_to_boolean' },
  { code: '42803', message: 'column "t.a" must appear in the GROUP BY clause' },
  { code: '22P02', message: 'invalid input syntax for type integer: "no such value"' }
] as const

/** Measures the body of a batch. */
export function measureBody (body: string): Measured {
  const planner = new BatchPlanner(limits)
  const bytes = Buffer.from(body)
  return new StageClock().measure(clock => {
    const batch = clock.run('read', () => readBatch(bytes, limits))
    // A shape that recurs is known.
    return ['first', 'second'].map(time =>
      clock.run(`plan the ${time} time`, () => planner.plan(batch)))
  })
}

const files = new Map(Object.entries(namedBatches).map(([name, content]): [string, NamedBatch] => {
  const read = readNamedBatch(`${name}.json`, Buffer.from(JSON.stringify(content)), limits)
  if ('issues' in read) throw new Error(read.issues.join('\n'))
  return [name, read.batch]
}))

/** Measures the parameters of a named batch. */
export function measureParameters (name: string, body: string): Measured {
  const bytes = Buffer.from(body)
  return new StageClock().measure(clock => {
    const values = clock.run('read', () => readParameters(bytes))
    const batch = files.get(name) as NamedBatch
    return [clock.run('plan', () => planNamed(batch, values, bytes.length))]
  })
}

/** The longest piece of the event loop: others proceed between the stages of a large body. */
export function longestPiece ({ stages }: Measured): number {
  // A body is refused in the turn in which its issue is found.
  return Math.max(...Array.from(stages, ([name, ms]) =>
    /^(?:read|plan|error)/.test(name) ? ms + (stages.get('answer') ?? 0) : ms))
}

/** Whether a body has too many names, operators and references. */
export function isTooMuch ({ failure }: Measured): boolean {
  return failure instanceof Failure && failure.code === 'too_much_work'
}

/** The share of a body is found to 2 %. */
const STEPS = 6

/** Finds about the largest share of a body, from 0 to 1, that is not too much. */
export function findShare (measure: (share: number) => Measured): number {
  let [share, step] = [0, 1]
  for (let i = 0; i < STEPS; i++) {
    step /= 2
    if (!isTooMuch(measure(share + step))) share += step
  }
  return share
}

class StageClock {
  readonly #stages = new Map<string, number>()
  #failure: unknown
  #sentBytes = 0

  measure (read: (clock: StageClock) => readonly PlannedBatch[]): Measured {
    this.#attempt(() => {
      const planned = read(this)
      // The same shape is compiled in another way when it is known.
      for (const batch of new Set([planned[0], planned.at(-1)])) {
        this.#compile(batch as PlannedBatch)
      }
    })
    return {
      stages: this.#stages,
      failure: this.#failure,
      answerBytes: this.#answer(),
      sentBytes: this.#sentBytes
    }
  }

  /** Runs a stage. Of a stage that runs again, the longest time is kept. */
  run<Result> (name: string, work: () => Result): Result {
    const before = process.threadCpuUsage()
    try {
      return work()
    } finally {
      const { user, system } = process.threadCpuUsage(before)
      this.#stages.set(name, Math.max(this.#stages.get(name) ?? 0, (user + system) / 1000))
    }
  }

  /** Keeps the first failure. */
  #attempt (work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#failure ??= error
    }
  }

  #compile (planned: PlannedBatch): void {
    const compile = () => compiler.compile(planned, request)
    const stage = (name: string, create: () => readonly Statement[]): void =>
      this.#attempt(() => this.run(name, () => this.#write(create())))
    stage('operations', () => compile().operations())
    this.#attempt(() => this.#describeErrors(planned, compile().operations()))
  }

  #write (statements: readonly Statement[]): void {
    const writer = new MessageWriter()
    const connection = { prepared: noPreparedStatements(), prepares: true }
    for (const { name, text, parameters } of toRequests(connection, statements)) {
      writer.parse(name, text).bind(name, parameters).execute()
    }
    this.#sentBytes = Math.max(this.#sentBytes, writer.finish().length)
  }

  /** Describes errors at the end of the longest statement. */
  #describeErrors (planned: PlannedBatch, statements: readonly Statement[]): void {
    const lengths = statements.map(({ text }) => text.length)
    const at = lengths.indexOf(Math.max(...lengths))
    const query = statements[at]?.text ?? ''
    const { plan } = planned
    const options = {
      ...limits, role: 'user', anonymous: false, verbose: false, suggestions: NO_SUGGESTIONS
    }
    for (const error of errors) {
      const described = { severity: 'ERROR', position: String(query.length - 1), query, ...error }
      const outcome = { kind: 'failed', at, error: described } as never
      this.run(`error ${error.code}`, () => toFailure(outcome, plan, options))
    }
  }

  /** Returns the bytes of the response of a body that is refused. */
  #answer (): number {
    const failure = this.#failure
    if (!(failure instanceof Failure)) return 0
    const { code, message, details } = failure
    return Buffer.byteLength(this.run('answer', () =>
      JSON.stringify({ error: { code, message, ...details }, data: null })))
  }
}
