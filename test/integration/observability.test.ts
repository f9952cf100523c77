/**
 * Checks alerts, dashboard and documentation against a real scrape. Every expression is valid
 * PromQL, and its metrics and labels exist. Every alert has a section in
 * docs/operations/monitoring.md, and the table of metrics there is correct.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  fillIn,
  observability,
  promtool,
  readAlerts,
  readDashboard,
  readExposition,
  readExpression,
  watchedSchema
} from '../support/process/prometheus.ts'
import { needs, runProgram } from '../support/process/programs.ts'
import { ask, useService } from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = watchedSchema(0.3)

const alerts = await readAlerts()
const dashboard = await readDashboard()
const page = readFileSync(join(observability, '../../docs/operations/monitoring.md'), 'utf8')

/** The labels that Prometheus adds to every sample, and the metrics that it creates itself. */
const TARGET_LABELS = ['job', 'instance']
const SYNTHETIC: Readonly<Record<string, readonly string[]>> = {
  up: [],
  probe_success: [],
  ALERTS: ['alertname', 'alertstate', 'severity']
}

const expressions = [
  ...alerts.map(({ alert, expr }) => [alert, expr] as const),
  ...dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => [title, fillIn(expr, '1m')] as const)
  ),
  ...dashboard.annotations.list.map(({ expr }) => ['annotation', fillIn(expr, '1m')] as const)
]

/**
 * The text of `/metrics` after batches that were committed, failed, rejected and retried. The first
 * test fetches it.
 */
let text = ''
let families: ReturnType<typeof readExposition> = new Map()
const familyOf = (metric: string) =>
  families.get(metric) ?? families.get(metric.replace(/_(bucket|sum|count)$/, ''))

t.test('a service is scraped after batches of every outcome', async t => {
  const service = await useService(t, {
    schema,
    keys: true,
    batches: { all: { operations: [{ id: 's', op: 'select', table: 'notes' }] } },
    env: { POOL_SIZE: '1', QUEUE_SIZE: '1', QUEUE_TIMEOUT_MS: '5000' }
  })
  const insert = (table: string, row: object) =>
    service.post([{ id: 'n', op: 'insert', table, values: [row] }])
  const inserts = [
    ['notes', { id: 1 }, 200],
    ['notes', { id: 1 }, 409],
    ['moody', { times: 1 }, 200]
  ] as const
  for (const [table, row, status] of inserts) t.match(await insert(table, row), { status }, table)
  const skipped = { id: 'i', op: 'insert', table: 'notes', values: [{ id: 1 }], when: { f: 0 } }
  const found = { id: 'f', op: 'select', table: 'notes', expect: 1 }
  t.match(await service.post([found, skipped]), { status: 200 })
  t.match(await service.run('all', {}), { status: 200 })
  t.match(await service.run('all', { x: 1 }), { status: 422 })
  t.match(await ask(`${service.url}/health`), { status: 200 })
  const slow = Array.from(
    { length: 5 },
    () => service.post([{ id: 's', op: 'select', table: 'slow' }])
  )
  t.ok((await Promise.all(slow)).some(({ status }) => status === 503), 'some were rejected')
  // A request is counted shortly after its response, and the metric of garbage collections has
  // labels only after the first collection.
  await until(async () => {
    Array.from({ length: 100_000 }, () => ({}))
    text = (await ask(`${service.adminUrl}/metrics`)).text
    return text.includes('status_code="503"') && text.includes('nodejs_gc_duration_seconds_count{')
  })
  families = readExposition(text)

  const blocks = page.matchAll(/^ *```sql\n([^]*?)^ *```$/gm)
  const queries = Array.from(blocks, ([, query = '']) => query)
  t.equal(queries.length, 3, 'queries of the page')
  for (const query of queries) await service.database.sql.unsafe(query)
})

t.test('expressions are valid and use existing metrics and labels', async t => {
  for (const [title, expr] of expressions) {
    const { faults, selectors, grouping } = readExpression(expr)
    t.same(faults, [], `${title} is valid PromQL`)
    t.ok(selectors.length > 0, `${title} reads a metric`)
    const known = new Set(TARGET_LABELS)
    for (const { metric, labels } of selectors) {
      const own = SYNTHETIC[metric] ??
        (familyOf(metric) === undefined
          ? undefined
          : [...familyOf(metric)?.labels ?? [], ...metric.endsWith('_bucket') ? ['le'] : []])
      t.ok(own !== undefined, `${title}: ${metric} exists`)
      for (const label of own ?? []) known.add(label)
      t.same(
        labels.filter(label => ![...TARGET_LABELS, ...own ?? []].includes(label)),
        [],
        `${title}: the labels of ${metric}`
      )
    }
    t.same(grouping.filter(label => !known.has(label)), [], `${title}: labels that are grouped by`)
  }
})

t.test('outcomes, statuses and reasons in expressions exist', async t => {
  const valuesIn = (text: string, label: string): ReadonlySet<string | undefined> => {
    const found = text.matchAll(new RegExp(`${label}="([^"]*)"`, 'g'))
    return new Set(Array.from(found, ([, value]) => value))
  }
  const used = expressions.map(([, expr]) => expr).join('\n')
  const kindOf = { '/': 'batch', '/batches/:name': 'batch', '/health': 'other' }
  for (const [route, kind] of Object.entries(kindOf)) {
    const kinds = text.split('\n').filter(line =>
      line.startsWith('http_request_duration_seconds_count{') && line.includes(`route="${route}"`)
    ).map(line => /kind="(\w+)"/.exec(line)?.[1])
    t.same(new Set(kinds), new Set([kind]), route)
  }
  t.same([...valuesIn(used, 'outcome').difference(valuesIn(text, 'outcome'))], [])
  for (const part of [used, text]) t.ok(valuesIn(part, 'status_code').has('503'))
  const reasons = /export type RetryReason =(.*?)\n(?:\n|$)/s.exec(
    readFileSync(new URL('../../src/transaction/outcome.ts', import.meta.url), 'utf8')
  )?.[1] ?? ''
  const matched = alerts.flatMap(({ expr }) =>
    [...expr.matchAll(/reason=~"([^"]*)"/g)].flatMap(([, words]) => (words as string).split('|'))
  )
  t.same([...new Set(matched)].filter(reason => !reasons.includes(`'${reason}'`)), [])
})

t.test('alerts have a unique name, a severity and a documented runbook', async t => {
  t.equal(new Set(alerts.map(({ alert }) => alert)).size, alerts.length)
  const sections = [...page.matchAll(/^### (Oneflight\w+)$/gm)].map(([, name]) => name as string)
  t.same(sections, alerts.map(({ alert }) => alert), 'each alert has a section, in the same order')
  for (const { alert, labels, annotations } of alerts) {
    t.match(labels['severity'], /^(critical|warning)$/, alert)
    t.same(Object.keys(annotations), ['summary', 'description', 'runbook_url'], alert)
    t.equal(
      annotations['runbook_url'],
      `https://oneflight.example/docs/operations/monitoring.md#${alert.toLowerCase()}`,
      alert
    )
  }
})

t.test('the documented table of metrics equals the scrape', async t => {
  const lines = page.matchAll(/^\| `([a-z0-9_]+)` \| (\w+) \| (.*?) \| (.+) \|$/gm)
  const rows = [...lines].map(([, name, type, labels]) => ({
    name,
    type,
    labels: [...(labels as string).matchAll(/`(\w+)`/g)].map(([, label]) => label)
  }))
  const scraped = (name: string) => ({
    name,
    type: families.get(name)?.type,
    labels: [...families.get(name)?.labels ?? []]
  })
  t.same(rows, rows.map(({ name }) => scraped(name as string)))
  const documented = new Set(rows.map(({ name }) => name))
  t.same(
    [...families.keys()].filter(name => /^(service|http)_/.test(name) && !documented.has(name)),
    [],
    'every metric of the service is documented'
  )
})

t.test(
  ...needs('promtool accepts configuration and rules, and their tests pass', { promtool }),
  async t => {
    const commands = [
      ['check', 'config', 'prometheus.yml'],
      ['check', 'rules', 'alerts.yml'],
      ['test', 'rules', 'alerts.test.yml']
    ]
    for (const args of commands) {
      const { code, output } = await runProgram(promtool as string, args, { cwd: observability })
      t.equal(code, 0, `promtool ${args.join(' ')}: ${output}`)
    }
    const tests = readFileSync(join(observability, 'alerts.test.yml'), 'utf8')
    for (const { alert } of alerts) t.ok(tests.includes(alert), `${alert} has a test`)
  }
)
