/**
 * The promises that the README makes, each with the test files behind it, and the reading of the
 * figures that the fault harness measured for them. The README's table and that of
 * docs/operations/reliability.md are made from this one list (`npm run docs`). In charge of naming;
 * it runs nothing. What a figure is, test/chaos/scenario.ts says.
 */
import type { Figure } from './chaos/scenario.ts'

/**
 * A file under test/ without `.test.ts`, and in a word or two what of it where the file's name does
 * not say it.
 */
export type Evidence = readonly [file: string, what?: string]

export interface Promised {
  /**
   * What figures name it by: 1 to 18 are what the service survives, the rest what else it can be
   * relied on for. Never used again for another one.
   */
  readonly number: number
  readonly text: string
  readonly tests: readonly [Evidence, ...Evidence[]]
}

export const promises: readonly Promised[] = [
  {
    number: 1,
    text: 'A batch is all or nothing, whatever dies: client, service, backend, server',
    tests: [
      ['chaos/storm', 'everything killed under load, with a ledger'],
      ['chaos/cuts', 'cut at every message'],
      ['integration/lost-connections'],
      ['e2e/crash'],
      ['e2e/stop'],
      ['e2e/failover'],
      ['integration/client-disconnects']
    ]
  },
  {
    number: 2,
    text: 'A 200 means committed',
    tests: [['chaos/storm'], ['chaos/cuts'], ['chaos/protocol', 'odd servers'], [
      'integration/lost-connections'
    ], [
      'e2e/crash'
    ], ['e2e/failover']]
  },
  {
    number: 3,
    text: 'Every error says whether anything was committed',
    tests: [
      ['chaos/cuts', 'COMMIT carried out, its answer withheld'],
      ['chaos/protocol'],
      ['integration/lost-connections'],
      ['unit/postgres/fatal-error-watcher', 'the last word of a server'],
      ['e2e/crash'],
      ['integration/retry']
    ]
  },
  {
    number: 4,
    text: 'With an `Idempotency-Key` a batch is applied exactly once',
    tests: [
      ['integration/idempotency'],
      ['integration/idempotency-edge-cases', 'how it could be applied twice'],
      ['unit/auth/principal', 'whose key it is'],
      ['e2e/migrate'],
      ['chaos/storm'],
      ['chaos/cuts'],
      ['e2e/haproxy', 'three instances, one stopped and one killed under load'],
      ['docs/reliability', 'as documented']
    ]
  },
  {
    number: 5,
    text: "A batch never runs in, sees or ends another request's transaction, role or settings",
    tests: [
      ['integration/session', 'a hostile trigger on one connection'],
      [
        'integration/isolation',
        'thousands of interleaved batches of eight roles on three connections'
      ],
      ['e2e/pgbouncer'],
      ['integration/lost-connections']
    ]
  },
  {
    number: 6,
    text: "Role and claims of every operation are exactly the token's, whatever a trigger " +
      'does; a bad token is never anonymous',
    tests: [['integration/auth'], ['integration/tokens'], ['integration/session'], [
      'integration/isolation'
    ]]
  },
  {
    number: 7,
    text: 'Values are stored exactly or refused',
    tests: [['integration/values', 'every built-in type both ways'], ['unit/json/parse'], [
      'integration/references'
    ], [
      'integration/model',
      'random batches against plain SQL'
    ], ['integration/idempotency', 'replays']]
  },
  {
    number: 8,
    text: 'Nothing of a request becomes SQL text but quoted identifiers (and the constants of ' +
      '`index_where`, quoted; with `SQL_COMMENTS=on` its ids in a comment, encoded)',
    tests: [['integration/sql'], ['integration/on-conflict'], ['integration/sql-comments'], [
      'integration/fuzz'
    ]]
  },
  {
    number: 9,
    text: 'Overload is refused fast, and memory stays bounded',
    tests: [['chaos/overload'], ['integration/admission'], ['integration/pool']]
  },
  {
    number: 10,
    text: 'Every request is answered within its deadline',
    tests: [['integration/deadlines'], ['chaos/cuts', 'silence, throttles'], [
      'integration/lost-connections'
    ], ['integration/wire']]
  },
  {
    number: 11,
    text: 'The process survives restarts of the database, and serves again within a second of it',
    tests: [['chaos/restart'], ['chaos/storm'], ['chaos/protocol'], ['e2e/crash'], ['e2e/failover']]
  },
  {
    number: 12,
    text: 'SIGTERM loses no accepted request',
    tests: [['e2e/stop'], ['integration/wire'], ['e2e/workers', 'several processes on one port'], [
      'e2e/haproxy',
      'behind a balancer'
    ]]
  },
  {
    number: 13,
    text: 'A client that goes away frees its connection and locks',
    tests: [['integration/client-disconnects'], ['e2e/stop', 'SIGKILL of the service'], [
      'chaos/storm'
    ]]
  },
  {
    number: 14,
    text: 'DDL under traffic is invisible',
    tests: [['integration/ddl'], ['integration/retry']]
  },
  {
    number: 15,
    text: 'Deadlocks and serialization failures are tried again, then reported as retryable',
    tests: [['chaos/conflicts'], ['integration/retry'], ['e2e/failover', 'conflicts with recovery']]
  },
  {
    number: 16,
    text: 'No secret, value or token in logs, metrics, configuration and errors',
    tests: [['integration/secrets'], ['integration/request-log'], ['integration/admin'], [
      'unit/config/config'
    ], ['e2e/migrate']]
  },
  {
    number: 17,
    text: 'Every answer and log line carries a safe request id',
    tests: [['integration/http'], ['integration/wire'], ['integration/request-log'], [
      'integration/fuzz'
    ]]
  },
  {
    number: 18,
    text: 'Malformed input never gives a 5xx',
    tests: [
      ['integration/fuzz', 'random bytes, bodies and headers'],
      ['integration/validation', 'property test'],
      ['unit/json/parse'],
      [
        'integration/wire'
      ]
    ]
  },
  {
    number: 19,
    text: 'A batch takes two round trips, none while a lock is held',
    tests: [['integration/round-trips', 'counted on the wire'], [
      'integration/idempotency',
      'with a key as well'
    ]]
  },
  {
    number: 20,
    text: 'A batch does what its operations would do one after the other',
    tests: [['integration/model', 'random batches against plain SQL'], ['integration/batch']]
  },
  {
    number: 21,
    text: 'A token has one reading, one key and one algorithm that fits it',
    tests: [['integration/tokens'], ['unit/auth/jwt-keys']]
  },
  {
    number: 22,
    text: 'An endpoint of keys that is down or lies takes nobody out and lets nobody in',
    tests: [['integration/jwks']]
  },
  {
    number: 23,
    text: 'Settings of a role count for its batches and for no other',
    tests: [['integration/role-settings']]
  },
  {
    number: 24,
    text: 'A typo never widens a query',
    tests: [
      ['integration/validation'],
      ['integration/filter-validation'],
      ['integration/extension-validation'],
      ['unit/plan/grammar'],
      ['integration/openapi'],
      [
        'e2e/cli-check'
      ]
    ]
  },
  {
    number: 25,
    text: 'A dry run leaves nothing, and its loss is never in doubt',
    tests: [['integration/prefer']]
  },
  {
    number: 26,
    text: 'Every example of the documentation answers as printed',
    tests: [
      ['docs/language'],
      ['docs/examples'],
      ['docs/policies'],
      ['docs/reliability'],
      ['docs/readme'],
      ['docs/commands', 'every shell block'],
      ['docs/getting-started'],
      ['docs/coming-from'],
      ['docs/how-it-works'],
      ['docs/scaling'],
      ['docs/cli'],
      ['docs/links']
    ]
  }
]

/** A figure and the scenario that measured it. */
export type Measured = Figure & { readonly scenario: string }

/** What a run of `npm run test:chaos` leaves in `figures.json`. */
export interface FaultRecord {
  /** ISO 8601. */
  readonly date: string
  readonly commit: string
  /** Replays the run: `SEED=n npm run test:chaos`. */
  readonly seed: number
  readonly node: string
  readonly postgres: string
  readonly cores: number
  readonly figures: readonly Measured[]
}

/** Where the harness writes, from the root of the project. */
export const figuresFile = 'test/chaos/figures.json'

/**
 * Reads the text of `figures.json`. Throws an Error that names the first figure which speaks of a
 * promise that nobody made.
 */
export function readFigures (text: string): FaultRecord {
  const record = JSON.parse(text) as FaultRecord
  const made = new Set(promises.map(({ number }) => number))
  for (const { scenario, name, promises: numbers } of record.figures) {
    const unknown = numbers.find(number => !made.has(number))
    if (unknown !== undefined) {
      throw new Error(
        `${figuresFile}: "${name}" of ${scenario} speaks of promise ${unknown}, which nobody made`
      )
    }
  }
  return record
}
