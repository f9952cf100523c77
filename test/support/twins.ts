/**
 * Two services with equal databases: one chooses the form of its statements, the other one only
 * uses the general form. Both get the same requests; their responses must have the same bytes.
 */
import type { Test } from 'tap'
import { formSettings } from './form-settings.ts'
import { token, useService, type Answer, type ServiceUnderTest, type UseServiceOptions }
  from './service.ts'
import { until } from './until.ts'

export interface Twins {
  readonly chosen: ServiceUnderTest
  readonly general: ServiceUnderTest
  /** Posts the same batch to both, compares the responses, and returns the first one. */
  post(batch: unknown, name: string, headers?: Readonly<Record<string, string>>): Promise<Answer>
  /** Runs the same SQL in both databases. */
  sql(text: string): Promise<void>
  /** Compares the rows of a query in both databases, and returns them. */
  compare(query: string, name: string): Promise<readonly unknown[]>
  /** Terminates the connections of both services, so that the next batch opens new ones. */
  reconnect(): Promise<void>
  /** How often the connection of the first service has run plain statements on a table. */
  countPlain(table: string): Promise<number>
}

const plainUses = `
  create view plain_uses as
    select statement, generic_plans + custom_plans as n from pg_prepared_statements
      where statement !~ 'json_populate|with .*j as \\(|plain_uses';
  grant select on plain_uses to oneflight_user, oneflight_other;`

/** The responses are those of one request id and one user. */
const authorization = `Bearer ${token({ role: 'oneflight_user', sub: 'twin' })}`

export async function useTwins (
  t: Test,
  { schema = '', env = {}, ...options }: UseServiceOptions
): Promise<Twins> {
  const settings = { schema: schema + plainUses, env: { POOL_SIZE: '1', ...env }, ...options }
  const chosen = await useService(t, settings)
  const general = await useService(t, { ...settings, batchSettings: formSettings('general') })
  const both = [chosen, general] as const
  return {
    chosen,
    general,
    async post (batch, name, headers = {}) {
      const [first, second] = await Promise.all(both.map(({ post }) =>
        post(batch, { headers: { 'x-request-id': 'twin', authorization, ...headers } })
      )) as [Answer, Answer]
      t.equal(first.text, second.text, `${name}: the same response`)
      t.equal(first.status, second.status, name)
      return first
    },
    async sql (text) {
      await Promise.all(both.map(({ database }) => database.sql.unsafe(text)))
    },
    async compare (query, name) {
      const [first, second] = await Promise.all(
        both.map(({ database }) => database.sql.unsafe(query))
      )
      t.same(first, second, `${name}: the same rows`)
      return first as readonly unknown[]
    },
    async reconnect () {
      for (const { database: { sql, name } } of both) {
        await sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = ${name} and usename <> current_user`
        await until(async () =>
          (await sql`select from pg_stat_activity
            where datname = ${name} and usename <> current_user`).length === 0
        )
      }
    },
    async countPlain (table) {
      const { body } = await chosen.post([{
        id: 'n',
        op: 'select',
        table: 'plain_uses',
        columns: [{ fn: 'sum', column: 'n' }],
        where: { statement: { like: `%"${table}"%` } }
      }], { headers: { authorization } })
      return body.data.n[0].sum as number ?? 0
    }
  }
}
