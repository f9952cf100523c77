/**
 * Two services with equal databases. The first one keeps what it learned: the types of columns, the
 * plans of batches of the same shape, and its prepared statements. The second one prepares nothing,
 * and can start anew. Both get the same requests; their responses must have the same bytes.
 */
import type { Test } from 'tap'
import { token, useService, type Answer, type ServiceUnderTest, type UseServiceOptions }
  from './service.ts'
import { until } from './until.ts'

export interface Twins {
  readonly first: ServiceUnderTest
  /** Posts the same batch to both, compares the responses, and returns the first one. */
  post(batch: unknown, name: string, headers?: Readonly<Record<string, string>>): Promise<Answer>
  /** Runs the same SQL in both databases. */
  sql(text: string): Promise<void>
  /** Compares the rows of a query in both databases, and returns them. */
  compare(query: string, name: string): Promise<readonly unknown[]>
  /** Terminates the connections of both services, so that the next batch opens new ones. */
  reconnect(): Promise<void>
  /** Starts the second service anew, so that it knows nothing. */
  restartSecond(): Promise<void>
  /** How often the connection of the first service has run prepared statements on a table. */
  countPrepared(table: string): Promise<number>
}

const preparedUses = `
  create view prepared_uses as
    select statement, generic_plans + custom_plans as n from pg_prepared_statements
      where statement !~ 'prepared_uses';
  grant select on prepared_uses to oneflight_user, oneflight_other;`

/** The responses are those of one request id and one user. */
const authorization = `Bearer ${token({ role: 'oneflight_user', sub: 'twin' })}`

export async function useTwins (
  t: Test,
  { schema = '', env = {}, ...options }: UseServiceOptions
): Promise<Twins> {
  const settings = { schema: schema + preparedUses, env: { POOL_SIZE: '1', ...env }, ...options }
  const withoutPreparing = { ...settings, env: { ...settings.env, PREPARED_STATEMENTS: 'off' } }
  const first = await useService(t, settings)
  let second = await useService(t, withoutPreparing)
  const databases = [first.database, second.database] as const
  return {
    first,
    async post (batch, name, headers = {}) {
      const [one, other] = await Promise.all([first, second].map(({ post }) =>
        post(batch, { headers: { 'x-request-id': 'twin', authorization, ...headers } })
      )) as [Answer, Answer]
      t.equal(one.text, other.text, `${name}: the same response`)
      t.equal(one.status, other.status, name)
      return one
    },
    async sql (text) {
      await Promise.all(databases.map(({ sql }) => sql.unsafe(text)))
    },
    async compare (query, name) {
      const [rows, others] = await Promise.all(databases.map(({ sql }) => sql.unsafe(query)))
      t.same(rows, others, `${name}: the same rows`)
      return rows as readonly unknown[]
    },
    async reconnect () {
      for (const { sql, name } of databases) {
        await sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = ${name} and usename <> current_user`
        await until(async () =>
          (await sql`select from pg_stat_activity
            where datname = ${name} and usename <> current_user`).length === 0
        )
      }
    },
    async restartSecond () {
      const { database, stop } = second
      await stop()
      second = await useService(t, {
        ...withoutPreparing,
        keys: false,
        provide: async () => database
      })
    },
    async countPrepared (table) {
      const { body } = await first.post([{
        id: 'n',
        op: 'select',
        table: 'prepared_uses',
        columns: [{ fn: 'sum', column: 'n' }],
        where: { statement: { like: `%"${table}"%` } }
      }], { headers: { authorization } })
      return body.data.n[0].sum as number ?? 0
    }
  }
}
