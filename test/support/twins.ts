/**
 * Two services with equal databases. The first one keeps what it learned: the types of columns, the
 * plans of batches of the same shape, and its prepared statements. The second one prepares nothing.
 * Both get the same requests; their responses must have the same bytes.
 */
import type { Test } from 'tap'
import { token, useService, type Answer, type ServiceUnderTest, type UseServiceOptions }
  from './service.ts'

export interface Twins {
  readonly first: ServiceUnderTest
  /** Posts the same batch to both, compares the responses, and returns the first one. */
  post(batch: unknown, name: string, headers?: Readonly<Record<string, string>>): Promise<Answer>
  /** Compares the rows of a query in both databases, and returns them. */
  compare(query: string, name: string): Promise<readonly unknown[]>
}

/** The responses are those of one request id and one user. */
const authorization = `Bearer ${token({ role: 'oneflight_user', sub: 'twin' })}`

export async function useTwins (
  t: Test,
  { schema = '', env = {}, ...options }: UseServiceOptions
): Promise<Twins> {
  const settings = { schema, env: { POOL_SIZE: '1', ...env }, ...options }
  const withoutPreparing = { ...settings, env: { ...settings.env, PREPARED_STATEMENTS: 'off' } }
  const first = await useService(t, settings)
  const second = await useService(t, withoutPreparing)
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
    async compare (query, name) {
      const [rows, others] = await Promise.all(databases.map(({ sql }) => sql.unsafe(query)))
      t.same(rows, others, `${name}: the same rows`)
      return rows as readonly unknown[]
    }
  }
}
