/**
 * Runs the shell blocks of the documentation like a user who pastes them into one terminal, against
 * a real service with the sample shop. Output is compared exactly, except for the parts that
 * `settle` replaces.
 */
import { execFile } from 'node:child_process'
import { symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Test } from 'tap'
import { compact, root } from './pages.ts'
import { token, type ServiceUnderTest, type UseServiceOptions } from '../service.ts'
import { CUSTOMER, useShopService } from '../database/shop.ts'
import { listRoot } from '../tracked-files.ts'

const TIMEOUT_MS = 60_000

export interface Terminal {
  /** The working directory. */
  readonly folder: string
  /** Runs a block. Variables that it exports are available to the next one. */
  run(text: string): Promise<Output>
}

export interface Output {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/**
 * Starts the service with the sample shop and the table of idempotency keys, as `npm run dev` does.
 */
export async function useShop (
  t: Test,
  options: Omit<UseServiceOptions, 'schema'> = {}
): Promise<ServiceUnderTest> {
  return await useShopService(t, {
    keys: true,
    ...options,
    env: {
      ANON_ROLE: 'shop_anonymous',
      ERROR_VERBOSITY: 'verbose',
      MAX_STREAM_ROWS: '100',
      ...options.env
    }
  })
}

/**
 * Opens a terminal that uses the service of `useShop` instead of `npm run dev`, with
 * ONEFLIGHT_TOKEN exported. Of a command, only the addresses are replaced.
 */
export function openTerminal (t: Test, service: ServiceUnderTest): Terminal {
  const ports = [['4000', service.url], ['9568', service.adminUrl]] as const
  const replaceAddresses = (text: string): string =>
    ports.reduce(
      (text, [port, url]) =>
        text.replaceAll(
          new RegExp(`\\b(?:127\\.0\\.0\\.1|localhost):${port}\\b`, 'g'),
          new URL(url).host
        ),
      text
    )
  // The command line uses port 4000 by default.
  const { folder, run } = openShell(t, {
    ONEFLIGHT_TOKEN: token(CUSTOMER),
    ONEFLIGHT_URL: service.url
  })
  return { folder, run: text => run(replaceAddresses(text)) }
}

/**
 * Opens a terminal in a folder of links to the files of the project, so files that a block writes
 * do not remain in the project. `sh -eu` runs the blocks in order. Exported variables carry over to
 * the next block.
 */
export function openShell (t: Test, variables: Readonly<Record<string, string>>): Terminal {
  const folder = t.testdir({})
  for (const name of listRoot()) symlinkSync(join(root, name), join(folder, name))
  const home = join(folder, '.home')
  const state = join(folder, '.exported')
  writeFileSync(state, '')
  const path = [join(root, 'node_modules/.bin'), process.env['PATH']].join(delimiter)
  const { NODE_COMPILE_CACHE } = process.env
  return {
    folder,
    run: text =>
      new Promise(resolve => {
        const script = `. '${state}'\n${text}\nexport -p > '${state}'\n`
        const options = {
          cwd: folder,
          env: { PATH: path, HOME: home, PWD: folder, NODE_COMPILE_CACHE, ...variables },
          timeout: TIMEOUT_MS,
          maxBuffer: 2 ** 26
        }
        execFile('sh', ['-euc', script], options, (error, stdout, stderr) =>
          resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }))
      })
  }
}

/**
 * Normalizes a text for comparison: `\r\n` becomes `\n`, timestamps become `<time>` and UUIDs
 * `<uuid>`. Everything else must match exactly, also ids of rows and digits of numbers.
 */
export function settle (text: string): string {
  return text.replaceAll('\r\n', '\n').trim()
    .replaceAll(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d(?::?\d\d)?)?/g, '<time>')
    .replaceAll(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, '<uuid>')
}

/** The same for JSON, without its white space. */
export function settleJson (text: string): string {
  return settle(compact(text))
}
