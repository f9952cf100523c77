/**
 * Provides the sample shop of deploy/shop.sql on a test database, with its roles and its customer.
 */
import { join } from 'node:path'
import type { Test } from 'tap'
import { ensureRoles, LOGIN_ROLE, useDatabase, withRoles, type Database } from './database.ts'
import { readPage, root } from '../docs/pages.ts'
import {
  token,
  useService,
  type Answer,
  type ServiceUnderTest,
  type UseServiceOptions
} from '../service.ts'

/** The customer of the token that `npm run dev` prints, and of the shop's first order. */
export const CUSTOMER = { role: 'shop_customer', sub: 'corner-shop' } as const

const schema = readPage('deploy/shop.sql')

/** Returns the headers of a request of the customer, or of another one. */
export function asCustomer (sub: string = CUSTOMER.sub): { readonly authorization: string } {
  return { authorization: `Bearer ${token({ ...CUSTOMER, sub })}` }
}

/** The statuses, each with the code and the operation of an error. */
export const outcomes = (answers: readonly Answer[]): readonly string[] =>
  answers.map(({ status, body: { error } }) =>
    error === null ? String(status) : `${status} ${error.code} ${error.op}`).sort()

/** Starts a service on the shop with its named batches, and with the options of useService. */
export async function useShopService (
  t: Test,
  options: Omit<UseServiceOptions, 'schema'> = {}
): Promise<ServiceUnderTest> {
  await ensureShopRoles()
  return await useService(t, {
    ...options,
    schema,
    env: { BATCHES_DIR: join(root, 'deploy/batches'), ...options.env }
  })
}

export async function useShopDatabase (t: Test): Promise<Database> {
  await ensureShopRoles()
  return await useDatabase(t, { schema })
}

/**
 * Creates the roles of the shop, with the first statement of its schema. The lock of withRoles
 * prevents two files from creating them at once.
 */
async function ensureShopRoles (): Promise<void> {
  const roles = /^do \$\$[\s\S]*?^\$\$;/m.exec(schema)?.[0] as string
  await ensureRoles([])
  await withRoles(async sql => {
    await sql.unsafe(`${roles} grant shop_customer, shop_anonymous to ${LOGIN_ROLE}`)
  })
}
