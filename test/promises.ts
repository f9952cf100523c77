/**
 * The promises that the README makes, each with the test files behind it, and the reading of the
 * figures that the fault harness measured for them. The README's table and that of
 * docs/reliability.md are made from this one list (`npm run docs`). In charge of naming; it runs
 * nothing. What a figure is, test/faults/scenario.ts says.
 */
import type { Figure } from './faults/scenario.ts'

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
      ['faults/storm', 'everything killed under load, with a ledger'],
      ['faults/cuts', 'cut at every message'],
      ['faults'],
      ['crash'],
      ['stop'],
      ['failover'],
      ['clients-gone']
    ]
  },
  {
    number: 2,
    text: 'A 200 means committed',
    tests: [['faults/storm'], ['faults/cuts'], ['faults/protocol', 'odd servers'], ['faults'], [
      'crash'
    ], ['failover']]
  },
  {
    number: 3,
    text: 'Every error says whether anything was committed',
    tests: [
      ['faults/cuts', 'COMMIT carried out, its answer withheld'],
      ['faults/protocol'],
      ['faults'],
      ['farewell', 'the last word of a server'],
      ['crash'],
      ['retry']
    ]
  },
  {
    number: 4,
    text: 'With an `Idempotency-Key` a batch is applied exactly once',
    tests: [
      ['idempotency'],
      ['key-faults', 'how it could be applied twice'],
      ['principal', 'whose key it is'],
      ['migrate'],
      ['faults/storm'],
      ['faults/cuts'],
      ['haproxy', 'three instances, one stopped and one killed under load'],
      ['reliability', 'as documented']
    ]
  },
  {
    number: 5,
    text: "A batch never runs in, sees or ends another request's transaction, role or settings",
    tests: [
      ['session', 'a hostile trigger on one connection'],
      ['isolation', 'thousands of interleaved batches of eight roles on three connections'],
      ['pgbouncer'],
      ['faults']
    ]
  },
  {
    number: 6,
    text: "Role and claims of every operation are exactly the token's, whatever a trigger " +
      'does; a bad token is never anonymous',
    tests: [['auth'], ['tokens'], ['session'], ['isolation']]
  },
  {
    number: 7,
    text: 'Values are stored exactly or refused',
    tests: [['values', 'every built-in type both ways'], ['json'], ['references'], [
      'model',
      'random batches against plain SQL'
    ], ['idempotency', 'replays']]
  },
  {
    number: 8,
    text: 'Nothing of a request becomes SQL text but quoted identifiers (and the constants of ' +
      '`index_where`, quoted; with `SQL_COMMENTS=on` its ids in a comment, encoded)',
    tests: [['sql'], ['on-conflict'], ['sql-comments'], ['garbage']]
  },
  {
    number: 9,
    text: 'Overload is refused fast, and memory stays bounded',
    tests: [['faults/overload'], ['admission'], ['pool']]
  },
  {
    number: 10,
    text: 'Every request is answered within its deadline',
    tests: [['deadlines'], ['faults/cuts', 'silence, throttles'], ['faults'], ['wire']]
  },
  {
    number: 11,
    text: 'The process survives restarts of the database, and serves again within a second of it',
    tests: [['faults/restart'], ['faults/storm'], ['faults/protocol'], ['crash'], ['failover']]
  },
  {
    number: 12,
    text: 'SIGTERM loses no accepted request',
    tests: [['stop'], ['wire'], ['workers', 'several processes on one port'], [
      'haproxy',
      'behind a balancer'
    ]]
  },
  {
    number: 13,
    text: 'A client that goes away frees its lane and locks',
    tests: [['clients-gone'], ['stop', 'SIGKILL of the service'], ['faults/storm']]
  },
  { number: 14, text: 'DDL under traffic is invisible', tests: [['ddl'], ['retry']] },
  {
    number: 15,
    text: 'Deadlocks and serialization failures are tried again, then reported as retryable',
    tests: [['faults/conflicts'], ['retry'], ['failover', 'conflicts with recovery']]
  },
  {
    number: 16,
    text: 'No secret, value or token in logs, metrics, configuration and errors',
    tests: [['secrets'], ['log'], ['admin'], ['config'], ['migrate']]
  },
  {
    number: 17,
    text: 'Every answer and log line carries a safe request id',
    tests: [['http'], ['wire'], ['log'], ['garbage']]
  },
  {
    number: 18,
    text: 'Malformed input never gives a 5xx',
    tests: [['garbage', 'random bytes, bodies and headers'], ['plan', 'property test'], ['json'], [
      'wire'
    ]]
  },
  {
    number: 19,
    text: 'A batch takes two round trips, none while a lock is held',
    tests: [['flights', 'counted on the wire'], ['idempotency', 'with a key as well']]
  },
  {
    number: 20,
    text: 'A batch does what its operations would do one after the other',
    tests: [['model', 'random batches against plain SQL'], ['batch']]
  },
  {
    number: 21,
    text: 'A token has one reading, one key and one algorithm that fits it',
    tests: [['tokens'], ['keys']]
  },
  {
    number: 22,
    text: 'An endpoint of keys that is down or lies takes nobody out and lets nobody in',
    tests: [['jwks']]
  },
  {
    number: 23,
    text: 'Settings of a role count for its batches and for no other',
    tests: [['role-settings']]
  },
  {
    number: 24,
    text: 'A typo never widens a query',
    tests: [['plan'], ['filter-faults'], ['extension-faults'], ['grammar'], ['openapi'], [
      'cli-check'
    ]]
  },
  {
    number: 25,
    text: 'A dry run leaves nothing, and its loss is never in doubt',
    tests: [['prefer']]
  },
  {
    number: 26,
    text: 'Every example of the documentation answers as printed',
    tests: [
      ['language'],
      ['examples'],
      ['policies'],
      ['reliability'],
      ['readme'],
      ['commands', 'every shell block'],
      ['getting-started'],
      ['coming-from'],
      ['how-it-works'],
      ['scaling'],
      ['cli-docs'],
      ['links']
    ]
  }
]

/** A figure and the scenario that measured it. */
export type Measured = Figure & { readonly scenario: string }

/** What a run of `npm run test:faults` leaves in `figures.json`. */
export interface FaultRecord {
  /** ISO 8601. */
  readonly date: string
  readonly commit: string
  /** Replays the run: `SEED=n npm run test:faults`. */
  readonly seed: number
  readonly node: string
  readonly postgres: string
  readonly cores: number
  readonly figures: readonly Measured[]
}

/** Where the harness writes, from the root of the project. */
export const figuresFile = 'test/faults/figures.json'

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
