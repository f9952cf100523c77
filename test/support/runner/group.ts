/**
 * Runs several test files in one process, each as a test of its own. To load tap and the service
 * takes more processor time than the tests of most files.
 */
import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'
import tap, { type Test } from 'tap'

/** The limit of .taprc for a file, which tap passes on in seconds. */
const TIMEOUT = Number(process.env['TAP_TIMEOUT']) * 1000

/** Runs test files one after the other. What each imports as `tap` is the test of the file. */
export async function runFiles (files: readonly string[]): Promise<void> {
  const tests = new Map<string, Test>()
  Object.assign(globalThis, { testsOfFiles: tests })
  registerHooks({
    resolve (specifier, context, next) {
      const { parentURL = '' } = context
      if (specifier !== 'tap' || !tests.has(parentURL)) return next(specifier, context)
      const code = `export default testsOfFiles.get(${JSON.stringify(parentURL)})`
      return {
        url: `data:text/javascript,${encodeURIComponent(code)}`,
        format: 'module',
        shortCircuit: true
      }
    }
  })
  tap.setTimeout(0)
  for (const file of files) {
    const { href } = pathToFileURL(file)
    await tap.test(file, { timeout: TIMEOUT }, async t => {
      tests.set(href, t)
      await import(href)
    })
  }
}
