/**
 * The sample shop of deploy/shop.sql, as `npm run dev` and compose.yaml have it, on a database of a
 * test.
 *
 * In charge of: its schema, its roles for the login role of the tests, and its customer.
 * Refuses to: place orders, or to know what a test does with it.
 */
import type { Test } from 'tap'
import { ensureRoles, LOGIN_ROLE, useDatabase, withRoles, type Database } from './database.ts'
import { readPage } from '../docs/pages.ts'
import { token, useService, type ServiceUnderTest, type UseServiceOptions } from '../service.ts'

/** What `npm run dev` prints is of this customer, and so is the shop's first order. */
export const CUSTOMER = { role: 'shop_customer', sub: 'corner-shop' } as const

const schema = readPage('deploy/shop.sql')

/** Headers of the customer. */
export function asCustomer (): { readonly authorization: string } {
  return { authorization: `Bearer ${token(CUSTOMER)}` }
}

/** A service on the shop; options as those of useService. */
export async function useShopService (
  t: Test,
  options: Omit<UseServiceOptions, 'schema'> = {}
): Promise<ServiceUnderTest> {
  await makeRoles()
  return await useService(t, { ...options, schema })
}

/** The shop alone. */
export async function useShopDatabase (t: Test): Promise<Database> {
  await makeRoles()
  return await useDatabase(t, { schema })
}

/**
 * The first statement of the schema makes the roles that are missing; two files at once would make
 * them twice.
 */
async function makeRoles (): Promise<void> {
  const roles = /^do \$\$[\s\S]*?^\$\$;/m.exec(schema)?.[0] as string
  await ensureRoles([])
  await withRoles(async sql => {
    await sql.unsafe(`${roles} grant shop_customer, shop_anonymous to ${LOGIN_ROLE}`)
  })
}
