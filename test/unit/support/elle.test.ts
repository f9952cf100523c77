/**
 * Tests the checker of list-append histories with a small history of each anomaly.
 */
import t from 'tap'
import { findComponents } from '../../support/elle/components.ts'
import {
  readTransactions,
  toElleJson,
  type HistoryEvent,
  type MicroOperation,
  type Outcome
} from '../../support/elle/history.ts'
import { checkHistory, type Level } from '../../support/elle/levels.ts'

/** Reads `a x 1` (append) and `r x 1 2` (read), separated by commas. */
function parse (text: string): readonly MicroOperation[] {
  return text.split(',').map(operation => {
    const [name, key = '', ...numbers] = operation.trim().split(' ')
    return name === 'a' ? ['append', key, Number(numbers[0])] : ['r', key, numbers.map(Number)]
  })
}

type Line = readonly [outcome: Outcome, text: string]

/** Groups run one after the other, the transactions of a group concurrently. */
function makeHistory (groups: ReadonlyArray<readonly Line[]>): readonly HistoryEvent[] {
  let process = 0
  const events = groups.flatMap(group => {
    const numbered = group.map(([type, text]) => ({ process: process++, type, value: parse(text) }))
    return [...numbered.map(event => ({ ...event, type: 'invoke' as const })), ...numbered]
  })
  return events.map((event, time) => ({ ...event, time }))
}

const ok = (...texts: readonly string[]): readonly Line[] => texts.map(text => ['ok', text])

const typesOf = (level: Level, ...groups: ReadonlyArray<readonly Line[]>): readonly string[] => {
  const { forbidden } = checkHistory(makeHistory(groups), level)
  return [...new Set(forbidden.map(({ type }) => type))].sort()
}

interface Case {
  readonly name: string
  readonly history: ReadonlyArray<readonly Line[]>
  /** The anomalies of the history, and the levels that forbid them; by default all. */
  readonly types: readonly string[]
  readonly forbiddenAt?: readonly Level[]
}

const everywhere: readonly Level[] = ['read-committed', 'repeatable-read', 'serializable']
const bySnapshots: readonly Level[] = ['repeatable-read', 'serializable']

const cases: readonly Case[] = [
  {
    name: 'G0: two transactions overwrite each other',
    history: [ok('a x 1, a y 1', 'a x 2, a y 2'), ok('r x 1 2, r y 2 1')],
    types: ['G0']
  },
  {
    name: 'G1a: a read of what was rolled back',
    history: [[['fail', 'a x 1'], ['ok', 'r x 1']]],
    types: ['G1a']
  },
  {
    name: 'G1b: a read of an intermediate state',
    history: [ok('a x 1, a x 2', 'r x 1'), ok('r x 1 2')],
    types: ['G-single', 'G1b']
  },
  {
    name: 'G1c: two transactions read from each other',
    history: [ok('a x 1, r y 1', 'a y 1, r x 1')],
    types: ['G1c']
  },
  {
    name: 'G-single: a read shows one half of a transaction',
    history: [ok('a x 1, a y 1', 'r x, r y 1'), ok('r x 1')],
    types: ['G-single'],
    forbiddenAt: bySnapshots
  },
  {
    name: 'G-single: two reads of a list differ',
    history: [ok('a x 1', 'r x, r x 1')],
    types: ['G-single'],
    forbiddenAt: bySnapshots
  },
  {
    name: 'lost update: two transactions replace the same version',
    history: [ok('r x, a x 1', 'r x, a x 2'), ok('r x 1 2')],
    types: ['G-single', 'lost-update'],
    forbiddenAt: bySnapshots
  },
  {
    name: 'G-nonadjacent: a long fork',
    history: [ok('a x 1', 'a y 1', 'r x 1, r y', 'r x, r y 1')],
    types: ['G-nonadjacent'],
    forbiddenAt: bySnapshots
  },
  {
    name: 'G2-item: a write skew',
    history: [ok('r x, a y 1', 'r y, a x 1'), ok('r x 1, r y 1')],
    types: ['G2-item'],
    forbiddenAt: ['serializable']
  },
  {
    name: 'duplicate elements: an append ran twice',
    history: [ok('a x 1'), ok('r x 1 1')],
    types: ['duplicate-elements']
  },
  {
    name: 'incompatible order: two reads have different orders',
    history: [ok('a x 1', 'a x 2'), ok('r x 1 2', 'r x 2 1')],
    types: ['incompatible-order']
  },
  {
    name: 'unknown element: a read of an element that was never appended',
    history: [ok('r x 7')],
    types: ['unknown-element']
  },
  {
    name: 'internal: a transaction does not see its own append',
    history: [ok('a x 1, r x'), ok('r x 1')],
    types: ['internal']
  },
  {
    name: 'internal: a transaction sees its own append too early',
    history: [ok('r x 1, a x 1')],
    types: ['internal']
  },
  {
    name: 'lost append: a committed append is never seen',
    history: [ok('a x 1'), ok('r x')],
    types: ['lost-append']
  },
  {
    name: 'lost append: one half of a transaction is never seen',
    history: [[['info', 'a x 1, a y 1']], ok('r x 1'), ok('r y')],
    types: ['lost-append']
  },
  {
    name: 'stale read: a read starts after an append was answered and does not see it',
    history: [ok('a x 1'), ok('r x'), ok('r x 1')],
    types: ['stale-read']
  },
  {
    name: 'G0-realtime: an append comes before one that was answered earlier',
    history: [ok('a x 1'), ok('a x 2'), ok('r x 2 1')],
    types: ['G0-realtime']
  },
  {
    name: 'G1c-realtime: a transaction reads from one that starts later',
    history: [ok('r x 1'), ok('a x 1')],
    types: ['G1c-realtime']
  }
]

for (const { name, history, types, forbiddenAt = everywhere } of cases) {
  t.test(name, async t => {
    t.same(typesOf('serializable', ...history), types)
    const levels = everywhere.filter(level => typesOf(level, ...history).length > 0)
    t.same(levels, forbiddenAt, 'the levels that forbid it')
    const { allowed } = checkHistory(makeHistory(history), 'read-committed')
    t.equal(allowed.length > 0, typesOf('read-committed', ...history).length < types.length)
  })
}

/** A write skew that only real time shows: y was answered before the second reader started. */
const laterReader = (): readonly HistoryEvent[] => {
  const events = [
    [0, 'invoke', 'r x, a y 1'],
    [1, 'invoke', 'a x 1'],
    [1, 'ok', 'a x 1'],
    [2, 'invoke', 'r y'],
    [2, 'ok', 'r y'],
    [0, 'ok', 'r x, a y 1'],
    [3, 'invoke', 'r x 1, r y 1'],
    [3, 'ok', 'r x 1, r y 1']
  ] as const
  return events.map(([process, type, text], time) => ({ process, type, value: parse(text), time }))
}

t.test('G2-item-realtime: allowed with snapshots, not when serializable', async t => {
  t.match(checkHistory(laterReader(), 'serializable').forbidden, [{ type: 'G2-item-realtime' }])
  t.same(checkHistory(laterReader(), 'repeatable-read').forbidden, [])
})

t.test('histories without anomalies', async t => {
  const histories = {
    'one after the other': [ok('a x 1'), ok('r x 1, a x 2, r x 1 2'), ok('r x 1 2')],
    'a read of what is not answered yet': [ok('a x 1', 'r x 1')],
    'an unknown outcome that was not applied': [[['info', 'a x 1']], ok('r x')],
    'an unknown outcome that was applied late': [[['info', 'a x 1']], ok('r x'), ok('r x 1')],
    'a failed append': [[['fail', 'a x 1']], ok('r x')]
  } satisfies Record<string, ReadonlyArray<readonly Line[]>>
  for (const [name, history] of Object.entries(histories)) {
    t.same(typesOf('serializable', ...history), [], name)
  }
})

t.test('an allowed anomaly does not hide a forbidden one', async t => {
  const skewAndStaleRead = [
    ok('r x, a y 1', 'r y, a x 1'),
    ok('r x, a z 1'),
    ok('r x 1, r y 1, r z 1')
  ]
  t.same(typesOf('repeatable-read', ...skewAndStaleRead), ['stale-read'])
})

t.test('the text of a cycle names its edges and transactions', async t => {
  const history = makeHistory([ok('r x, a y 1', 'r y, a x 1'), ok('r x 1, r y 1')])
  t.same(checkHistory(history, 'serializable').forbidden.map(({ text }) => text), [
    'T0 ok: r x [], append y 1 -rw-> T1 ok: r y [], append x 1 -rw-> T0'
  ])
})

t.test('components of a long chain and of two cycles', async t => {
  const size = 100_000
  const chain = findComponents(size, node => node + 1 < size ? [node + 1] : [])
  t.same(chain, [])
  const successors = new Map([[0, [1]], [1, [2]], [2, [0, 3]], [3, [4]], [4, [3]], [5, [0]]])
  const components = findComponents(6, node => successors.get(node) ?? [])
  t.same(components.map(nodes => [...nodes].sort()).sort(), [[0, 1, 2], [3, 4]])
})

t.test('a process runs one transaction at a time', async t => {
  const event = { process: 0, value: parse('a x 1'), time: 0 }
  t.throws(() => readTransactions([{ ...event, type: 'ok' }]), {
    message: 'event 0: unexpected ok of process 0'
  })
  t.throws(() => readTransactions([{ ...event, type: 'invoke' }, { ...event, type: 'invoke' }]), {
    message: 'event 1: unexpected invoke of process 0'
  })
  t.match(readTransactions([{ ...event, type: 'invoke' }]), [{ outcome: 'info', invoked: 0 }])
})

t.test('the JSON of Elle', async t => {
  const json = toElleJson([
    { type: 'invoke', process: 3, value: [['append', 1, 2], ['r', 1, null]], time: 1.5 },
    { type: 'ok', process: 3, value: [['append', 1, 2], ['r', 1, [2]]], time: 2 }
  ])
  t.same(json.split('\n'), [
    '[{"index":0,"type":"invoke","process":3,"f":"txn",' +
    '"value":[["append",1,2],["r",1,null]],"time":1500000},',
    '{"index":1,"type":"ok","process":3,"f":"txn",' +
    '"value":[["append",1,2],["r",1,[2]]],"time":2000000}]',
    ''
  ])
})
