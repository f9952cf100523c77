/**
 * Ten times as many clients as can be served: what is accepted is served at full speed, the rest is
 * refused fast, memory stays bounded, and who only asks how things are does not wait.
 *
 * In charge of: the load, and of measuring both loads in turn in the same run, for machines are not
 * the same from minute to minute. Refuses to: judge one moment; capacity and overload are held
 * against each other.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { onStage, type Stage } from '../../src/dev/stage.ts'
import { until } from '../support/until.ts'
import { encode, encodeBatch, openConnection, quantile } from './client.ts'
import {
  bearer,
  readMetric,
  ROLE,
  useServer,
  useServiceProcess,
  type ServiceProcess
} from './own-server.ts'
import type { Figure, Scenario, Setting } from './scenario.ts'

const LANES = 10
const CROWD = 10 * LANES

const schema = `
  create view work as select pg_sleep(0.02)::text as done;
  create table orders (id int generated always as identity primary key, note text);
  grant all on all tables in schema public to ${ROLE};`

/** What clients send, and what is scarce then. */
const batches = {
  connections: [{ id: 'w', op: 'select', table: 'work' }],
  CPU: Array.from(
    { length: 10 },
    (_, i) => ({ id: `o${i}`, op: 'select', table: 'orders', where: { id: { eq: i } } })
  )
} as const

/** How soon a client that was refused comes back, in milliseconds. */
const patience = { soon: (random: () => number) => 5 + 15 * random(), 'at once': () => 0 } as const

type Bound = keyof typeof batches
type Return = keyof typeof patience

interface Phase {
  readonly ms: number
  readonly accepted: readonly number[]
  readonly refused: readonly number[]
  /** Anything but 200 and 503. */
  readonly odd: number
}

/**
 * What one kind of load came to. `asked`: milliseconds of the answers to those who only ask how
 * things are, by path.
 */
interface Finding {
  readonly calm: readonly Phase[]
  readonly crowded: readonly Phase[]
  readonly asked: Readonly<Record<string, readonly number[]>>
  /** Answers of these that were not 200. */
  readonly unwell: number
  readonly grownMiB: number
}

export const overload: Scenario = {
  name: 'overload',
  run: setting =>
    onStage(async stage => {
      const { loginUrl } = await useServer(stage, { schema, settings: { fsync: 'off' } })
      const findings: Finding[] = []
      const figures: Figure[] = []
      for (const bound of ['connections', 'CPU'] as const) {
        for (const comeBack of ['soon', 'at once'] as const) {
          const finding = await onStage(stage =>
            measure(stage, loginUrl, { bound, comeBack }, setting)
          )
          setting.say(describe(bound, comeBack, finding))
          findings.push(finding)
          figures.push({
            name: `goodput of capacity, ${bound} scarce, refused clients back ${comeBack}`,
            value: rate(finding.crowded) / rate(finding.calm),
            unit: '%',
            goal: { atLeast: 0.85 },
            promises: [9]
          })
        }
      }
      return [...figures, ...summarize(findings)]
    })
}

/** The worst of all loads. */
function summarize (findings: readonly Finding[]): readonly Figure[] {
  const crowded = findings.flatMap(({ crowded }) => crowded)
  const worst = (times: (finding: Finding) => readonly number[]): number =>
    Math.max(...findings.map(finding => quantile(times(finding), 0.99)))
  const sum = (count: (phase: Phase) => number): number =>
    crowded.reduce((sum, phase) => sum + count(phase), 0)
  const paths = Object.keys(findings[0]?.asked ?? {})
  return [
    {
      name: 'refusals',
      value: sum(({ refused }) => refused.length),
      unit: '',
      goal: { atLeast: 1 },
      promises: [9]
    },
    {
      name: 'batches that were accepted among them',
      value: sum(({ accepted }) => accepted.length),
      unit: '',
      goal: { atLeast: 1 },
      promises: [9]
    },
    {
      name: 'answers that were neither',
      value: sum(({ odd }) => odd),
      unit: '',
      goal: { exactly: 0 },
      promises: [9]
    },
    {
      name: 'refusal, 99th percentile',
      value: worst(({ crowded }) => crowded.flatMap(({ refused }) => refused)),
      unit: 'ms',
      goal: { atMost: 50 },
      promises: [9]
    },
    {
      name: 'accepted batch, 99th percentile',
      value: worst(({ crowded }) => crowded.flatMap(({ accepted }) => accepted)),
      unit: 'ms',
      goal: { atMost: 1000 },
      promises: [9, 10]
    },
    {
      name: 'growth of memory',
      value: Math.max(...findings.map(({ grownMiB }) => grownMiB)),
      unit: 'MiB',
      goal: { atMost: 64 },
      promises: [9]
    },
    {
      name: 'answers of /health, /live, /ready, /metrics other than 200',
      value: findings.reduce((sum, { unwell }) => sum + unwell, 0),
      unit: '',
      goal: { exactly: 0 },
      promises: [9]
    },
    ...paths.map((path): Figure => ({
      name: `${path}, 99th percentile`,
      value: worst(({ asked }) => asked[path] ?? []),
      unit: 'ms',
      goal: { atMost: 250 },
      promises: [9]
    }))
  ]
}

async function measure (
  stage: Stage,
  loginUrl: string,
  { bound, comeBack }: { bound: Bound, comeBack: Return },
  { long, random }: Setting
): Promise<Finding> {
  const service = await useServiceProcess(stage, loginUrl, { POOL_SIZE: String(LANES) })
  const request = encodeBatch(bearer(), batches[bound])
  const ms = long ? 4000 : 400
  const load = (clients: number): Promise<Phase> =>
    run(service, request, { clients, ms, pause: () => patience[comeBack](random) })
  const memory = (): Promise<number> => readMetric(service, 'process_resident_memory_bytes')
  const calm: Phase[] = []
  const crowded: Phase[] = []
  const asked: Record<string, number[]> = {}
  let unwell = 0
  // The probe opens its connection when it is first asked.
  await until(async () => (await fetch(`${service.adminUrl}/ready`)).status === 200)
  // A process that has just been started compiles, and takes what memory it works with.
  for (let i = 0; i < (long ? 3 : 1); i++) await load(CROWD)
  const before = await memory()
  let highest = before
  for (let i = 0; i < (long ? 4 : 1); i++) {
    calm.push(await watched(service, () => load(LANES), {}).then(({ phase }) => phase))
    const found = await watched(service, () => load(CROWD), asked)
    crowded.push(found.phase)
    unwell += found.unwell
    highest = Math.max(highest, await memory())
  }
  return { calm, crowded, asked, unwell, grownMiB: (highest - before) / 2 ** 20 }
}

/** Accepted batches a second. */
function rate (phases: readonly Phase[]): number {
  return phases.reduce((sum, { accepted }) => sum + accepted.length, 0) /
    phases.reduce((sum, { ms }) => sum + ms, 0) * 1000
}

function describe (
  bound: Bound,
  comeBack: Return,
  { calm, crowded, asked, grownMiB }: Finding
): string {
  const times = (name: 'accepted' | 'refused', phases: readonly Phase[]): string =>
    [0.5, 0.99, 1].map(share => quantile(phases.flatMap(phase => phase[name]), share).toFixed(1))
      .join(' / ')
  const refusals = crowded.reduce((sum, { refused }) => sum + refused.length, 0) /
    crowded.reduce((sum, { ms }) => sum + ms, 0) * 1000
  return `${bound} scarce, refused clients back ${comeBack}: ${
    rate(calm).toFixed(0)
  } batches/s alone (${times('accepted', calm)} ms: median, p99, max), ${
    rate(crowded).toFixed(0)
  } in the crowd (${times('accepted', crowded)} ms), ` +
    `${refusals.toFixed(0)} refusals/s (${times('refused', crowded)} ms); memory +${
      grownMiB.toFixed(0)
    } MiB; ${
      Object.entries(asked).map(([path, times]) => `${path} ${quantile(times, 0.99).toFixed(1)}`)
        .join(', ')
    } ms`
}

async function run (
  service: ServiceProcess,
  request: Buffer,
  { clients, ms, pause }: { clients: number, ms: number, pause: () => number }
): Promise<Phase> {
  const connections = await Promise.all(
    Array.from({ length: clients }, () => openConnection(service.url))
  )
  const start = performance.now()
  const [accepted, refused]: [number[], number[]] = [[], []]
  let odd = 0
  await Promise.all(connections.map(async connection => {
    while (performance.now() - start < ms) {
      const { status, ms } = await connection.ask(request)
      if (status === 200) accepted.push(ms)
      else if (status === 503) {
        refused.push(ms)
        const wait = pause()
        if (wait > 0) await delay(wait)
      } else odd++
    }
    connection.close()
  }))
  return { ms: performance.now() - start, accepted, refused, odd }
}

/**
 * A load, and those who ask ten times a second how things are meanwhile; both loads have them, for
 * they cost something.
 */
async function watched (
  service: ServiceProcess,
  load: () => Promise<Phase>,
  asked: Record<string, number[]>
): Promise<{ readonly phase: Phase, readonly unwell: number }> {
  const end = new AbortController()
  let unwell = 0
  const watch = async (url: string, path: string): Promise<void> => {
    const connection = await openConnection(url)
    const times = asked[path] ??= []
    while (!end.signal.aborted) {
      const { status, ms } = await connection.ask(encode('GET', path))
      times.push(ms)
      if (status !== 200) unwell++
      await delay(100)
    }
    connection.close()
  }
  const watching = Promise.all([
    watch(service.url, '/health'),
    ...['/live', '/ready', '/metrics'].map(path => watch(service.adminUrl, path))
  ])
  const phase = await load()
  end.abort()
  await watching
  return { phase, unwell }
}
