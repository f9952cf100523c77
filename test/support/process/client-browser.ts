/**
 * Compiles the client and serves it on one origin with an empty page and the service.
 */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { useListener } from '../network/listen.ts'

export async function compileClient (directory: string): Promise<void> {
  const root = join(import.meta.dirname, '../../..')
  await promisify(execFile)(process.execPath, [
    join(root, 'node_modules/typescript/bin/tsc'),
    '-p',
    join(root, 'client'),
    '--skipLibCheck', // the package's own build checks them
    '--outDir',
    directory
  ])
}

/**
 * Serves an empty page at `/`, the compiled client under `/client/`, and the service at `/batch`,
 * until the end of `t`. Returns the origin.
 */
export async function useOrigin (
  t: Pick<Test, 'teardown'>,
  { client, service }: { readonly client: string, readonly service: string }
): Promise<string> {
  const server = createServer((incoming, outgoing) => {
    const { url = '/', method = 'GET' } = incoming
    if (url === '/batch') {
      const { host, ...headers } = incoming.headers
      incoming.pipe(
        request(service, { method, headers: { ...headers, connection: 'close' } }, answer => {
          outgoing.writeHead(answer.statusCode as number, answer.headers)
          answer.pipe(outgoing)
        }).on('error', () => outgoing.destroy())
      )
      return
    }
    if (url === '/') {
      outgoing.setHeader('content-type', 'text/html').end(
        '<!doctype html><title>Corner Shop</title>'
      )
    } else {
      readFile(join(client, url.replace('/client/', ''))).then(
        text => outgoing.setHeader('content-type', 'text/javascript').end(text),
        () => outgoing.writeHead(404).end()
      )
    }
  })
  return `http://127.0.0.1:${await useListener(t, server)}`
}
