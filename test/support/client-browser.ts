/**
 * A real browser, where one is installed, and a page of the same origin as the service.
 *
 * In charge of: finding it, starting and ending it, and one HTTP server for page, client and service.
 * Refuses to: install a browser, or to hide that there is none.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { chromium, type Page } from 'playwright-core'
import type { Test } from 'tap'

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

/** Where a Chromium is; undefined when none is installed. */
export const browser: string | undefined = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/bin'].flatMap(directory => names.map(name => join(directory, name))).find(isProgram)

function isProgram (path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Opens a page at `url`; the browser ends with `t`. */
export async function usePage (t: Pick<Test, 'teardown'>, url: string): Promise<Page> {
  const running = await chromium.launch({ executablePath: browser as string, args: ['--headless', '--no-sandbox', '--disable-background-networking'] })
  t.teardown(() => running.close())
  const page = await running.newPage()
  await page.goto(url)
  return page
}

/** Compiles the client into `directory`. */
export async function compileClient (directory: string): Promise<void> {
  const root = join(import.meta.dirname, '../..')
  await promisify(execFile)(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'client'), '--outDir', directory])
}

/** One origin: an empty page at `/`, the compiled client under `/client/`, and the service behind `/batch`. Ends with `t`. */
export async function useOrigin (t: Pick<Test, 'teardown'>, { client, service }: { readonly client: string, readonly service: string }): Promise<string> {
  const server = createServer((incoming, outgoing) => {
    const { url = '/', method = 'GET' } = incoming
    if (url === '/batch') {
      const { host, ...headers } = incoming.headers
      incoming.pipe(request(service, { method, headers: { ...headers, connection: 'close' } }, answer => {
        outgoing.writeHead(answer.statusCode as number, answer.headers)
        answer.pipe(outgoing)
      }).on('error', () => outgoing.destroy()))
      return
    }
    if (url === '/') outgoing.setHeader('content-type', 'text/html').end('<!doctype html><title>Corner Shop</title>')
    else {
      readFile(join(client, url.replace('/client/', ''))).then(
        text => outgoing.setHeader('content-type', 'text/javascript').end(text),
        () => outgoing.writeHead(404).end()
      )
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
