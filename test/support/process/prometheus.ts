/**
 * Parses PromQL expressions and metrics, and runs Prometheus and the blackbox exporter, if
 * installed, with the shipped configuration, other targets and shorter intervals.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parser } from '@prometheus-io/lezer-promql'
import type { Test } from 'tap'
import { parse, stringify } from 'yaml'
import { freePort } from '../../../scripts/dev/port.ts'
import { moodySchema } from '../database/triggers.ts'
import { ask } from '../service.ts'
import { until } from '../until.ts'
import { findProgram, startProgram } from './programs.ts'

export const promtool = findProgram('promtool')
export const prometheus = findProgram('prometheus')
export const blackbox = findProgram('blackbox_exporter', 'prometheus-blackbox-exporter')

export const observability = join(import.meta.dirname, '../../../deploy/observability')

/**
 * Returns a schema to be monitored: `slow` takes this many seconds, and an insert into `moody` is
 * retried.
 */
export function watchedSchema (seconds: number): string {
  return `
    create table notes (id int primary key);
    create view slow as select pg_sleep(${seconds})::text as x;
    ${moodySchema}
    create trigger moody before insert on moody for each row execute function moody();`
}

export interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

export interface Panel {
  readonly title: string
  readonly targets?: ReadonlyArray<{ readonly expr: string }>
}

export interface Dashboard {
  readonly panels: readonly Panel[]
  readonly annotations: { readonly list: ReadonlyArray<{ readonly expr: string }> }
}

export async function readAlerts (): Promise<readonly Rule[]> {
  const { groups } = parse(await readFile(join(observability, 'alerts.yml'), 'utf8')) as {
    groups: ReadonlyArray<{ rules: readonly Rule[] }>
  }
  return groups.flatMap(({ rules }) => rules)
}

export async function readDashboard (): Promise<Dashboard> {
  return JSON.parse(
    await readFile(join(observability, 'grafana/dashboards/oneflight.json'), 'utf8')
  ) as Dashboard
}

/** Fills in the variables of a dashboard expression like Grafana, for all instances. */
export const fillIn = (expr: string, window: string): string =>
  expr.replaceAll('$__rate_interval', window).replaceAll('$instance', '.*')

export interface Expression {
  /** The positions of syntax errors; empty for valid PromQL. */
  readonly faults: readonly string[]
  /** The metrics that are read, each with the labels of its matchers. */
  readonly selectors: ReadonlyArray<{ readonly metric: string, readonly labels: readonly string[] }>
  /** The labels of `by`, `without`, `on`, `ignoring` and `group_left`. */
  readonly grouping: readonly string[]
}

export function readExpression (expr: string): Expression {
  const faults: string[] = []
  const selectors: Array<{ metric: string, labels: string[] }> = []
  const grouping: string[] = []
  parser.parse(expr).iterate({
    enter ({ type, from, to, node }) {
      const text = expr.slice(from, to)
      if (type.isError) faults.push(`at ${from} of ${expr}`)
      if (type.name === 'VectorSelector') {
        selectors.push({ metric: expr.slice(from, to).split('{')[0]?.trim() ?? '', labels: [] })
      }
      if (type.name !== 'LabelName') return
      if (node.parent?.name === 'GroupingLabels') grouping.push(text)
      else selectors.at(-1)?.labels.push(text)
    }
  })
  return { faults, selectors, grouping }
}

export interface Family {
  readonly name: string
  readonly type: string
  readonly labels: ReadonlySet<string>
}

/**
 * Parses the metrics of an exposition, by name, each with all labels of its samples except `le` and
 * `quantile`.
 */
export function readExposition (text: string): ReadonlyMap<string, Family> {
  const families = new Map<string, { name: string, type: string, labels: Set<string> }>()
  for (const line of text.split('\n')) {
    const [, name, type = ''] = /^# TYPE (\S+) (.*)$/.exec(line) ?? []
    if (name !== undefined) families.set(name, { name, type, labels: new Set() })
    const [, sample = '', labels = ''] = /^([a-z0-9_]+)(?:\{(.*)\})? \S+$/.exec(line) ?? []
    const of = families.get(sample) ?? families.get(sample.replace(/_(bucket|sum|count)$/, ''))
    for (const [, label = ''] of labels.matchAll(/([a-z_]+)="/g)) {
      if (label !== 'le' && label !== 'quantile') of?.labels.add(label)
    }
  }
  return families
}

/** Returns the current samples of an expression, each with its labels. */
export type Query = (expr: string) => Promise<
  ReadonlyArray<{ readonly metric: Readonly<Record<string, string>>, readonly value: number }>
>

/** Short enough for a test to wait for. */
export const RATE_WINDOW = '10s'

/**
 * Starts Prometheus with prometheus.yml and alerts.yml. Only the targets and intervals differ.
 * The end of `t` stops it and the blackbox exporter.
 */
export async function startPrometheus (
  t: Test,
  targets: ReadonlyArray<{ readonly adminUrl: string }>
): Promise<Query> {
  const addresses = targets.map(({ adminUrl }) => new URL(adminUrl).host)
  const prober = await startBlackbox(t)
  const directory = t.testdir()
  const config = parse(await readFile(join(observability, 'prometheus.yml'), 'utf8'), {
    merge: true
  }) as { global: object, scrape_configs: Array<Record<string, unknown>> }
  config.global = { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' }
  for (const job of config.scrape_configs) {
    delete job['dns_sd_configs']
    job['static_configs'] = [{ targets: addresses }]
  }
  await writeFile(
    join(directory, 'prometheus.yml'),
    stringify(config, { aliasDuplicateObjects: false }).replace('blackbox:9115', prober)
  )
  const rules = await readFile(join(observability, 'alerts.yml'), 'utf8')
  await writeFile(join(directory, 'alerts.yml'), rules)
  const address = `127.0.0.1:${await freePort()}`
  const running = startProgram(t, prometheus as string, [
    `--config.file=${join(directory, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(directory, 'data')}`,
    `--web.listen-address=${address}`,
    '--log.level=warn'
  ])
  const url = `http://${address}`
  await until(async () => {
    if (running.child.exitCode !== null) throw new Error(`Prometheus ended: ${running.output()}`)
    return await ask(`${url}/-/ready`).then(({ status }) => status === 200, () => false)
  })
  return async expr => {
    const { status, body } = await ask(`${url}/api/v1/query`, {
      method: 'POST',
      body: new URLSearchParams({ query: expr })
    })
    if (status !== 200) throw new Error(`${body.error}: ${expr}`)
    return (body.data.result as ReadonlyArray<
      { metric: Record<string, string>, value: [number, string] }
    >).map(({ metric, value: [, value] }) => ({ metric, value: Number(value) }))
  }
}

async function startBlackbox (t: Test): Promise<string> {
  const address = `127.0.0.1:${await freePort()}`
  startProgram(t, blackbox as string, [
    `--config.file=${join(observability, 'blackbox.yml')}`,
    `--web.listen-address=${address}`,
    '--timeout-offset=0.1'
  ])
  await until(() =>
    ask(`http://${address}/-/healthy`).then(({ status }) => status === 200, () => false)
  )
  return address
}
