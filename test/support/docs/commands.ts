/**
 * Runs the shell blocks of the documentation as somebody who pastes them into one terminal, against
 * a real service.
 *
 * In charge of: the shop as `npm run dev` leaves it, the folder and the variables of the terminal,
 * and what of an output may differ from run to run. Refuses to: know any page. What is printed is
 * compared to the last digit, but for what `settle` names.
 */
import { execFile } from 'node:child_process'
import { readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Test } from 'tap'
import { codeBlocks, compact } from './markdown.ts'
import { readPage, root } from './pages.ts'
import { token, type ServiceUnderTest, type UseServiceOptions } from '../service.ts'
import { asCustomer, CUSTOMER, useShopService } from '../database/shop.ts'

/** Longest run of one block. */
const PATIENCE_MS = 60_000

export interface Terminal {
  /** Runs a block; what it exports is there for the next one. */
  run(text: string): Promise<Output>
}

export interface Output {
  /** Exit code. */
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/**
 * The service on the sample shop, with the table of keys, and with the order that `npm run dev`
 * places.
 */
export async function useShop (
  t: Test,
  options: Omit<UseServiceOptions, 'schema'> = {}
): Promise<ServiceUnderTest> {
  const service = await useShopService(t, {
    keys: true,
    ...options,
    env: { ANON_ROLE: 'shop_anonymous', ...options.env }
  })
  const [first] = codeBlocks(readPage('README.md')).filter(({ language }) => language === 'http')
  const { status } = await service.post(first?.text.replace(/^[^[]*/, ''), {
    headers: asCustomer()
  })
  if (status !== 200) throw new Error(`the first order of the shop was answered ${status}`)
  return service
}

/**
 * A terminal in which the service of `useShop` is the one that `npm run dev` started, and the line
 * `export TOKEN=…` was pasted.
 */
export function openTerminal (t: Test, service: ServiceUnderTest): Terminal {
  const ports = [['4000', service.url], ['9568', service.adminUrl]] as const
  const here = (text: string): string =>
    ports.reduce(
      (text, [port, url]) =>
        text.replaceAll(
          new RegExp(`\\b(?:127\\.0\\.0\\.1|localhost):${port}\\b`, 'g'),
          new URL(url).host
        ),
      text
    )
  // The command line goes to port 4000 unless it is told.
  const { run } = openShell(t, { TOKEN: token(CUSTOMER), ONEFLIGHT_URL: service.url })
  return { run: text => run(here(text).replaceAll(/\bnpx oneflight\b/g, 'node src/cli.ts')) }
}

/**
 * A terminal in a folder that has everything of the project by links, so that what a block writes
 * beside it does not stay. Blocks are run by `sh -eu`, one after the other; the exported variables
 * of one are those of the next.
 */
export function openShell (t: Test, variables: Readonly<Record<string, string>>): Terminal {
  const folder = t.testdir({})
  for (const name of readdirSync(root)) {
    if (!name.startsWith('.')) symlinkSync(join(root, name), join(folder, name))
  }
  const home = join(folder, '.home')
  const state = join(folder, '.exported')
  writeFileSync(state, '')
  const path = [join(root, 'node_modules/.bin'), process.env['PATH']].join(delimiter)
  return {
    run: text =>
      new Promise(resolve => {
        const script = `. '${state}'\n${text}\nexport -p > '${state}'\n`
        const options = {
          cwd: folder,
          env: { PATH: path, HOME: home, PWD: folder, ...variables },
          timeout: PATIENCE_MS,
          maxBuffer: 2 ** 26
        }
        execFile('sh', ['-euc', script], options, (error, stdout, stderr) =>
          resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }))
      })
  }
}

/**
 * A text as it is compared: `\r\n` is `\n`, moments in time are `<time>` and UUIDs `<uuid>`.
 * Everything else, the ids of rows and the digits of numbers too, has to be as printed.
 */
export function settle (text: string): string {
  return text.replaceAll('\r\n', '\n').trim()
    .replaceAll(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d(?::?\d\d)?)?/g, '<time>')
    .replaceAll(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, '<uuid>')
}

/** The same of JSON, whose white space does not count. */
export function settleJson (text: string): string {
  return settle(compact(text))
}
