/**
 * Short forms of what many tests need: headers, expected errors, and options of useService.
 */
import { readFileSync } from 'node:fs'
import type { Database } from './database/database.ts'
import { ask, token, type Answer, type UseServiceOptions } from './service.ts'

export const shopSchema = readFileSync(new URL('./database/shop.sql', import.meta.url), 'utf8')

/** The options of a service whose database is unreachable. No database is created for it. */
export const nowhere = {
  provide: async (): Promise<Database> => {
    const loginUrl = 'postgres://oneflight_login:login@127.0.0.1:1/nowhere'
    return { name: 'nowhere', url: loginUrl, loginUrl, sql: undefined as never }
  }
} satisfies UseServiceOptions

/** The options of services that share a database. */
export const on = (database: Database) =>
  ({ provide: async () => database }) satisfies UseServiceOptions

/** An Authorization header for `oneflight_user`, or with other claims. */
export const bearer = (claims: object = {}): string =>
  `Bearer ${token({ role: 'oneflight_user', ...claims })}`

/** The headers of a batch of `oneflight_user`. */
export const headersOfBatch = (more: Readonly<Record<string, string>> = {}) =>
  ({ authorization: bearer(), 'content-type': 'application/json', ...more })

/** Posts a batch of `oneflight_user` to a URL. Text and bytes are sent as they are. */
export const postBatch = (
  url: string,
  batch: unknown,
  headers: Readonly<Record<string, string>> = {}
): Promise<Answer> =>
  ask(url, {
    method: 'POST',
    headers: headersOfBatch(headers),
    body: typeof batch === 'string' || Buffer.isBuffer(batch) ? batch : JSON.stringify(batch)
  })

/** The pattern of an error response. */
export const failed = (status: number, code: string | RegExp, more: object = {}) =>
  ({ status, body: { error: { code, ...more } } })
