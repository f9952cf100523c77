/**
 * `node scripts/screenshot.ts`: writes docs/reference/api-reference.png, which shows the API
 * reference after a batch on the shop of `npm run dev`. Starts and stops all processes that it
 * needs. Requires Chromium.
 */
import { readFile } from 'node:fs/promises'
import { pino } from 'pino'
import postgres from 'postgres'
import { signToken } from '../src/auth/token.ts'
import { readConfig } from '../src/config/config.ts'
import { startService } from '../src/server/service.ts'
import { browserProgram, openBrowser, tryBatch } from '../test/support/process/browser.ts'
import { availableMajors, startPostgres } from './dev/postgres.ts'

if (browserProgram === undefined) throw new Error('Chromium is not installed')

const secret = 'a secret of this script, more than 32 bytes'
const server = await startPostgres({ major: availableMajors().at(-1) as number })
try {
  await load('create database shop', server.url)
  await load(
    await readFile(new URL('../deploy/shop.sql', import.meta.url), 'utf8'),
    server.url.replace(/[^/]*$/, 'shop')
  )
  const settings = readConfig({
    DATABASE_URL: `postgres://oneflight:oneflight@127.0.0.1:${server.port}/shop`,
    JWT_SECRET: secret,
    ANON_ROLE: 'shop_anonymous'
  })
  const service = await startService({ ...settings, logger: pino({ level: 'error' }) })
  const browser = await openBrowser()
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
    await tryBatch(page, service.adminUrl, {
      token: signToken({
        role: 'shop_customer',
        sub: 'corner-shop',
        exp: Math.floor(Date.now() / 1000) + 3600
      }, secret)
    })
    await page.getByText('"corner-shop"').last().waitFor()
    // Collapse the sections above the batch.
    for (const name of ['Cookies', 'Headers', 'Query Parameters']) {
      await page.getByRole('dialog').getByRole('button', { name, exact: true }).first().click()
    }
    await page.waitForFunction(
      'document.getAnimations().every(({ playState }) => playState !== "running")'
    )
    await page.mouse.move(0, 0)
    await page.screenshot({
      path: 'docs/reference/api-reference.png',
      animations: 'disabled',
      caret: 'hide'
    })
  } finally {
    await browser.close()
    await service.stop()
  }
} finally {
  await server.stop()
}

async function load (text: string, url: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  await sql.unsafe(text).finally(() => sql.end())
}
