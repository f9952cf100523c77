/**
 * Runs Chromium, if it is installed, and sends requests of the API reference page.
 */
import { chromium, type Browser, type Page, type Response } from 'playwright-core'
import type { Test } from 'tap'
import { findProgram } from './programs.ts'

/** The path of the program; undefined if it is not installed. */
export const browserProgram = findProgram(
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable'
)

/** Starts the browser without background requests, so all requests come from the page. */
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

/** Opens a page at `url`. The end of `t` closes the browser. */
export async function usePage (t: Pick<Test, 'teardown'>, url: string): Promise<Page> {
  const browser = await openBrowser()
  t.teardown(() => browser.close())
  const page = await browser.newPage()
  await page.goto(url)
  return page
}

/**
 * Enters the token, opens the prefilled request to a path and sends it. Resolves when the page
 * shows the status of the response.
 */
export async function tryBatch (
  page: Page,
  adminUrl: string,
  { token, path = '/' }: { readonly token: string, readonly path?: string }
): Promise<Response> {
  await page.goto(`${adminUrl}/reference`)
  await page.getByPlaceholder('Token').first().fill(token)
  // The sections of the page are rendered when they are near.
  const [name] = /[^/]*$/.exec(path) as unknown as readonly [string]
  if (path !== '/') await page.getByRole('link', { name }).first().click()
  await page.getByRole('button', { name: `Test Request (post ${path})`, exact: true }).click()
  const answered = page.waitForResponse(response => response.url().includes('/reference/try/'))
  await page.getByRole('dialog').getByRole('button', { name: /^Send/ }).first().click()
  const answer = await answered
  await page.getByText(`${answer.status()} ${answer.statusText()}`).first().waitFor()
  return answer
}
