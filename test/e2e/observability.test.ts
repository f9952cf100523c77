/**
 * Tests Prometheus with the shipped configuration: every query of the dashboard has data under
 * load, no alert fires in normal operation, and a probe finds an instance without a database.
 * alerts.test.yml has when each alert fires.
 */
import t from 'tap'
import { startWork } from '../support/ledger.ts'
import {
  blackbox,
  fillIn,
  prometheus,
  RATE_WINDOW,
  readDashboard,
  startPrometheus,
  watchedSchema
} from '../support/process/prometheus.ts'
import { needs } from '../support/process/programs.ts'
import { useService, type ServiceUnderTest } from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = watchedSchema(0.2)

const insert = (service: ServiceUnderTest, id: number) =>
  service.post([
    { id: 'n', op: 'insert', table: 'notes', values: [{ id }] },
    { id: 's', op: 'select', table: 'notes', where: { id: { eq: id } } }
  ])

t.test(
  ...needs('all queries of the dashboard have data and no alert fires', {
    prometheus,
    'blackbox exporter': blackbox
  }),
  async t => {
    const look = { id: 's', op: 'select', table: 'notes', limit: 1 }
    const batches = { look: { operations: [look, { ...look, id: 'z', when: { s: 0 } }] } }
    const services = [
      await useService(t, { schema, batches }),
      await useService(t, { schema, batches })
    ]
    const query = await startPrometheus(t, services)
    for (const service of services) {
      // One batch in twenty fails; occasionally one is retried.
      t.teardown(startWork(2, i => insert(service, i % 20 === 19 ? 0 : i)).stop)
      t.teardown(startWork(1, i => service.run('look', i % 20 === 19 ? { x: 1 } : {})).stop)
      await service.post([{ id: 'm', op: 'insert', table: 'moody', values: [{ times: 1 }] }])
    }
    const { panels, annotations } = await readDashboard()
    const queries = panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => ({ title, expr: fillIn(expr, RATE_WINDOW) }))
    )
    // Each query has data.
    await until(async () => {
      const answers = await Promise.all(queries.map(({ expr }) => query(expr)))
      return answers.every(samples =>
        samples.length > 0 && samples.every(({ value }) => Number.isFinite(value)))
    })
    const value = async (title: string): Promise<number> =>
      (await query(queries.find(query => query.title === title)?.expr as string))[0]
        ?.value as number
    await until(async () => await value('Ready instances') === 2)
    t.ok(await value('Batches') > 1)
    await until(async () => {
      const share = await value('Failed batches')
      return share > 0 && share < 1
    })
    t.equal(await value('Rejected (503)'), 0)
    t.same(
      await query(fillIn(annotations.list[0]?.expr as string, RATE_WINDOW)),
      [],
      'no restart'
    )
    t.same(await query('ALERTS{alertstate="firing"}'), [])
  }
)

t.test(
  ...needs('an instance that is up but not ready is named', {
    prometheus,
    'blackbox exporter': blackbox
  }),
  async t => {
    const service = await useService(t, {
      databaseUrl: url => url.replace(/@[^/]+/, '@127.0.0.1:1')
    })
    const query = await startPrometheus(t, [service])
    const instance = new URL(service.adminUrl).host
    const found = async (): Promise<readonly string[]> => {
      const [up, ready] = await Promise.all([
        query('up{job="oneflight"} == 1'),
        query('probe_success{job="oneflight-ready"} == 0')
      ])
      return [...up, ...ready].map(({ metric }) => metric['instance'] as string)
    }
    await until(async () => (await found()).length === 2)
    t.same(await found(), [instance, instance])
  }
)
