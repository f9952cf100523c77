#!/usr/bin/env node
/**
 * The entry point of the package's program. Modules with syntax that older Node versions cannot
 * parse are imported only after the version check. `start` imports main.ts first, so that signals
 * are handled as early as with `npm start`.
 */
import { createRequire } from 'node:module'

const { version, engines } = createRequire(import.meta.url)('oneflight/package.json') as {
  version: string,
  engines: { node: string }
}
const [command = 'start', ...rest] = process.argv.slice(2)

if (isOlder(process.version, engines.node)) {
  process.stderr.write(`oneflight: requires Node ${engines.node}, found ${process.version}\n`)
  process.exitCode = 2
} else if (command === 'start' && rest.length === 0) {
  await import('./main.ts')
} else if (command === 'migrate' && rest.length === 0) {
  await import('./migrate.ts')
} else {
  const { runCommand } = await import('./cli/main.ts')
  // As in process.ts, for `check --database`.
  delete process.env['PGTARGETSESSIONATTRS']
  process.exitCode = await runCommand([command, ...rest], version, process)
}

function isOlder (running: string, required: string): boolean {
  const [[major = 0, minor = 0], [needed = 0, atLeast = 0]] = [
    numbersOf(running),
    numbersOf(required)
  ] as const
  return major < needed || (major === needed && minor < atLeast)
}

function numbersOf (text: string): readonly number[] {
  return Array.from(text.matchAll(/\d+/g), Number)
}
