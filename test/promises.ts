/**
 * Lists the promises of the service with the test files that prove them, and reads the figures that
 * the fault harness measures for them. `npm run docs` generates docs/internals/promises.md and the
 * table of docs/operations/reliability.md from this list. test/experiments/scenario.ts describes
 * figures.
 */
import type { Figure } from './experiments/scenario.ts'

/** A file under test/ without `.test.ts`, and a description if its name does not suffice. */
export type Evidence = readonly [file: string, what?: string]

/** The groups of the page, in its order. */
export type PromiseGroup = 'Transactions' | 'Access' | 'Values and queries' | 'Availability' |
  'Observability and documentation'

export interface Promised {
  /** Figures refer to a promise by its number, so a number is never reused. */
  readonly number: number
  readonly group: PromiseGroup
  readonly text: string
  readonly tests: readonly [Evidence, ...Evidence[]]
}

export const promises: readonly Promised[] = [
  {
    number: 1,
    group: 'Transactions',
    text: 'A batch is applied completely or not at all, even if the client, the service or the ' +
      'database crashes.',
    tests: [
      ['experiments/storm', 'kills everything under load, checks a ledger'],
      ['experiments/cuts', 'cuts the connection at every message'],
      ['e2e/failover']
    ]
  },
  {
    number: 2,
    group: 'Transactions',
    text: 'A 200 means committed; of a stream, the last line counts.',
    tests: [
      ['experiments/storm'],
      ['experiments/protocol', 'servers that break the protocol'],
      ['integration/streams']
    ]
  },
  {
    number: 3,
    group: 'Transactions',
    text: 'Every error states whether anything was committed.',
    tests: [
      ['experiments/cuts', 'COMMIT runs, its response is withheld'],
      ['experiments/protocol'],
      ['integration/lost-connections']
    ]
  },
  {
    number: 4,
    group: 'Transactions',
    text: 'A batch with an `Idempotency-Key` is applied exactly once.',
    tests: [
      ['integration/idempotency'],
      ['integration/idempotency-edge-cases', 'attempts to apply a batch twice'],
      ['e2e/haproxy', 'three instances, one stopped and one killed under load']
    ]
  },
  {
    number: 5,
    group: 'Access',
    text: "A batch never runs in another request's transaction or role, and never sees its " +
      'settings. Settings that a trigger or function changes for its session are undone before ' +
      'the next batch; code that was added in the last minute, or that is declared STABLE and ' +
      "changes the session all the same, is noticed by the server's own reports where it changes " +
      'formats, encoding or, from PostgreSQL 18 on, `search_path`.',
    tests: [
      ['integration/session', 'careless triggers on one connection'],
      ['integration/runnable-code', 'what the catalogue says about code'],
      [
        'integration/isolation',
        'thousands of interleaved batches of eight roles on three connections'
      ]
    ]
  },
  {
    number: 6,
    group: 'Access',
    text: 'Every operation runs with exactly the role and claims of the token, even if a ' +
      'trigger of an earlier one changes them, and an invalid token is never anonymous.',
    tests: [
      ['integration/auth'],
      ['integration/tokens'],
      ['integration/isolation']
    ]
  },
  {
    number: 7,
    group: 'Values and queries',
    text: 'A value of a request is stored exactly or refused.',
    tests: [
      ['unit/values/write', 'what a type would round or cut'],
      ['integration/values', 'every type, written, read, matched and copied'],
      ['integration/write', 'random nested values, read back'],
      ['integration/model', 'random batches against plain SQL']
    ]
  },
  {
    number: 8,
    group: 'Values and queries',
    text: 'Text of a request becomes SQL only as a quoted identifier, a quoted constant of ' +
      '`index_where`, or an encoded id in a comment (`SQL_COMMENTS=on`).',
    tests: [
      ['integration/sql'],
      ['integration/names', 'also constants of `index_where`'],
      ['integration/fuzz']
    ]
  },
  {
    number: 9,
    group: 'Availability',
    text: 'Overload is refused quickly, and memory stays bounded.',
    tests: [
      ['experiments/overload'],
      ['unit/support/hostile', 'the time for a body as it grows'],
      ['integration/admission']
    ]
  },
  {
    number: 10,
    group: 'Availability',
    text: 'Every request is answered before its deadline.',
    tests: [
      ['integration/deadlines'],
      ['experiments/cuts', 'silent and slow connections'],
      ['integration/lost-connections']
    ]
  },
  {
    number: 11,
    group: 'Availability',
    text: 'The process survives restarts of the database and serves batches again within one ' +
      'second.',
    tests: [
      ['experiments/storm'],
      ['e2e/failover']
    ]
  },
  {
    number: 12,
    group: 'Availability',
    text: 'SIGTERM loses no accepted request.',
    tests: [
      ['e2e/stop'],
      ['e2e/workers', 'several processes on one port'],
      ['e2e/haproxy', 'behind a balancer']
    ]
  },
  {
    number: 13,
    group: 'Availability',
    text: 'If a client disconnects, its connection to the database and its locks are released.',
    tests: [
      ['integration/client-disconnects'],
      ['e2e/stop', 'SIGKILL of the service'],
      ['experiments/storm']
    ]
  },
  {
    number: 14,
    group: 'Availability',
    text: 'DDL under traffic does not make a valid batch fail.',
    tests: [['integration/ddl'], ['integration/retry']]
  },
  {
    number: 15,
    group: 'Transactions',
    text: 'Deadlocks and serialization failures are retried, then reported as retryable.',
    tests: [
      ['integration/retry'],
      ['e2e/failover', 'conflicts with recovery']
    ]
  },
  {
    number: 16,
    group: 'Observability and documentation',
    text: 'Logs, metrics, configuration and errors contain no secret, value or token.',
    tests: [
      ['integration/secrets'],
      ['integration/metrics-and-log'],
      ['unit/config/config']
    ]
  },
  {
    number: 17,
    group: 'Observability and documentation',
    text: 'Every response and every log line carries a safe request id.',
    tests: [
      ['integration/http'],
      ['integration/wire'],
      ['integration/metrics-and-log']
    ]
  },
  {
    number: 18,
    group: 'Availability',
    text: 'Malformed input never causes a 5xx.',
    tests: [
      ['integration/fuzz', 'random bytes, bodies and headers'],
      ['integration/wire']
    ]
  },
  {
    number: 19,
    group: 'Transactions',
    text: 'A batch takes one round trip to the database, two after a pause, and none under a lock.',
    tests: [
      ['integration/cost', 'counted on the wire'],
      ['integration/words-on-the-wire'],
      ['integration/round-trips']
    ]
  },
  {
    number: 20,
    group: 'Transactions',
    text: 'A batch has the same result as its operations run one after the other.',
    tests: [['integration/model', 'random batches against plain SQL']]
  },
  {
    number: 21,
    group: 'Access',
    text: 'A token has exactly one interpretation and is verified with one key and an ' +
      'algorithm that fits it.',
    tests: [['integration/tokens'], ['unit/auth/jwt-keys']]
  },
  {
    number: 22,
    group: 'Access',
    text: 'An unavailable or faulty JWKS endpoint neither locks out valid tokens nor admits ' +
      'invalid ones.',
    tests: [['integration/jwks']]
  },
  {
    number: 23,
    group: 'Access',
    text: 'Settings of a role apply to its batches and to no others.',
    tests: [['integration/role-settings']]
  },
  {
    number: 24,
    group: 'Values and queries',
    text: 'A typo never widens a query.',
    tests: [
      ['unit/plan/validation'],
      ['unit/plan/filter-validation'],
      ['unit/plan/grammar']
    ]
  },
  {
    number: 25,
    group: 'Transactions',
    text: 'A dry run leaves nothing behind, and its outcome is never unknown.',
    tests: [['integration/prefer']]
  },
  {
    number: 26,
    group: 'Observability and documentation',
    text: 'Every example in the documentation returns what is printed.',
    tests: [
      ['docs/language'],
      ['docs/commands', 'every shell block'],
      ['docs/examples']
    ]
  },
  {
    number: 27,
    group: 'Transactions',
    text: 'The responses to batches show no anomaly that their isolation level excludes, also ' +
      'while processes are killed and connections cut.',
    tests: [
      ['experiments/list-append', 'histories checked in the manner of Elle']
    ]
  },
  {
    number: 28,
    group: 'Access',
    text: 'An agent runs only the named batches of its role. A call that it repeats with its key ' +
      'is applied once.',
    tests: [
      ['integration/mcp', 'with the client of the SDK, and the rules of other batches'],
      ['docs/agents']
    ]
  }
]

/** The last run of a scenario. */
export interface ScenarioRun {
  readonly scenario: string
  /** ISO 8601. */
  readonly date: string
  readonly commit: string
  /** Replays the run: `SEED=n npm run test:chaos scenario`. */
  readonly seed: number
  readonly node: string
  readonly postgres: string
  readonly cores: number
  readonly figures: readonly Figure[]
}

/** Path of the figures from the root of the project. `npm run test:chaos` writes them. */
export const figuresFile = 'test/experiments/figures.json'

/**
 * Parses the contents of `figuresFile`: the last run of each scenario. Throws an Error that names
 * the first figure with an unknown promise.
 */
export function readFigures (text: string): readonly ScenarioRun[] {
  const runs = JSON.parse(text) as readonly ScenarioRun[]
  const numbers = new Set(promises.map(({ number }) => number))
  for (const { scenario, figures } of runs) {
    for (const { name, promises: named } of figures) {
      const unknown = named.find(number => !numbers.has(number))
      if (unknown !== undefined) {
        throw new Error(
          `${figuresFile}: "${name}" of ${scenario} refers to unknown promise ${unknown}`
        )
      }
    }
  }
  return runs
}
