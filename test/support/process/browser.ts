/**
 * A real browser: Chromium, where it is installed.
 *
 * In charge of: finding it, opening pages, and sending the batch that stands on the reference page.
 * Refuses to: install it, to hide that it is not there, or to say what a page should show.
 */
import { chromium, type Browser, type Page, type Response } from 'playwright-core'
import type { Test } from 'tap'
import { findProgram } from './programs.ts'

/** Where the program is; undefined when it is not installed. */
export const browserProgram = findProgram(
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable'
)

/** Asks nobody for updates and the like: what it requests, the page requests. */
export function openBrowser (): Promise<Browser> {
  const quiet = [
    'background-networking',
    'component-update',
    'sync',
    'default-apps',
    'dev-shm-usage'
  ].map(what => `--disable-${what}`)
  return chromium.launch({
    executablePath: browserProgram as string,
    args: ['--no-sandbox', '--no-first-run', ...quiet]
  })
}

/** Opens a page at `url`; the browser ends with `t`. */
export async function usePage (t: Pick<Test, 'teardown'>, url: string): Promise<Page> {
  const running = await openBrowser()
  t.teardown(() => running.close())
  const page = await running.newPage()
  await page.goto(url)
  return page
}

/**
 * Pastes the token, opens the batch that is filled in, and sends it; resolves when the page shows
 * the status of the answer.
 */
export async function tryBatch (page: Page, adminUrl: string, token: string): Promise<Response> {
  await page.goto(`${adminUrl}/reference`)
  await page.getByPlaceholder('Token').first().fill(token)
  await page.getByRole('button', { name: 'Test Request' }).first().click()
  const answered = page.waitForResponse(response => response.url().includes('/reference/try/'))
  await page.getByRole('dialog').getByRole('button', { name: /^Send/ }).first().click()
  const answer = await answered
  await page.getByText(`${answer.status()} ${answer.statusText()}`).first().waitFor()
  return answer
}
