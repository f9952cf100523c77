/**
 * The reference page in a real browser: Chromium, where it is installed.
 *
 * In charge of: finding it, opening the page and sending the batch that stands there.
 * Refuses to: install it, to hide that it is not there, or to say what the page should show.
 */
import { execFileSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium, type Browser, type Page, type Response } from 'playwright-core'

/** Where the program is; undefined when it is not installed. */
export const program: string | undefined = (process.env['PATH'] ?? '').split(delimiter).flatMap(directory => ['chromium', 'chromium-browser', 'google-chrome'].map(name => join(directory, name))).find(isProgram)

function isProgram (path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    execFileSync(path, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Asks nobody for updates and the like: what it requests, the page requests. */
export function openBrowser (): Promise<Browser> {
  const quiet = ['background-networking', 'component-update', 'sync', 'default-apps', 'dev-shm-usage'].map(what => `--disable-${what}`)
  return chromium.launch({ executablePath: program as string, args: ['--no-sandbox', '--no-first-run', ...quiet] })
}

/** Pastes the token, opens the batch that is filled in, and sends it; resolves when the page shows the status of the answer. */
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
