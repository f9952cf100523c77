/**
 * Runs the stages between the body of a request and the bytes for PostgreSQL, in this process, and
 * measures each. In the service they run in one piece of the event loop.
 */
import { readConfig } from '../../../src/config/config.ts'
import { Failure } from '../../../src/errors/catalogue.ts'
import { BatchPlanner, type PlannedBatch } from '../../../src/plan/plan-batch.ts'
import { batchLimits, readBatch } from '../../../src/plan/check/read-batch.ts'
import { MessageWriter } from '../../../src/postgres/messages.ts'
import { PreparedStatements } from '../../../src/postgres/prepared-statements.ts'
import { Compiler } from '../../../src/sql/compiler.ts'
import type { Statement } from '../../../src/sql/statement/statement.ts'
import { batchSettings } from '../../../src/transaction/run-batch.ts'

export interface Measured {
  /**
   * Processor time of this thread, in milliseconds, of the longest piece of the event loop: others
   * proceed between the stages of a large body.
   */
  readonly longestMs: number
  /** The failure that the body causes; undefined: none. */
  readonly failure: unknown
}

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
    variants: [{
      defaults: 100,
      parameters: columns.slice(-100)
        .map(([name]) => [name, 'pg_catalog', 'jsonb', 'b', 'i', 3802]),
      runsCode: true,
      oid: 1,
      isVoid: false
    }]
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

export function measureBody (body: string): Measured {
  const planner = new BatchPlanner(limits)
  const bytes = Buffer.from(body)
  return new StageClock().measure(clock => {
    const batch = clock.run(() => readBatch(bytes, limits))
    // A shape that recurs is known.
    return [1, 2].map(() => clock.run(() => planner.plan(batch)))
  })
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
  #longestMs = 0

  measure (read: (clock: StageClock) => readonly PlannedBatch[]): Measured {
    let failure: unknown
    try {
      const planned = read(this)
      // The same shape is compiled in another way when it is known.
      for (const batch of new Set([planned[0], planned.at(-1)])) {
        this.run(() => write(compiler.compile(batch as PlannedBatch, request).operations()))
      }
    } catch (error) {
      failure = error
    }
    return { longestMs: this.#longestMs, failure }
  }

  /** Runs a stage. */
  run<Result> (work: () => Result): Result {
    const before = process.threadCpuUsage()
    try {
      return work()
    } finally {
      const { user, system } = process.threadCpuUsage(before)
      this.#longestMs = Math.max(this.#longestMs, (user + system) / 1000)
    }
  }
}

/** Writes the messages for PostgreSQL. */
function write (statements: readonly Statement[]): void {
  const writer = new MessageWriter()
  for (const { name, text, parameters } of new PreparedStatements().toRequests(statements)) {
    writer.parse(name, text).bind(name, parameters).execute()
  }
  writer.finish()
}
