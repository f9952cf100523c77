/**
 * Keeps the JavaScript of TypeScript files between processes, for runs with coverage: Node removes
 * the types from every file in every process, which takes a third of the start of a service. Node's
 * own compile cache would make coverage less precise. Positions stay the same.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { registerHooks, stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'

const folder = join(import.meta.dirname, '../../../.tap/stripped')
mkdirSync(folder, { recursive: true })

registerHooks({
  load (url, context, nextLoad) {
    if (context.format !== 'module-typescript') return nextLoad(url, context)
    const loaded = nextLoad(url, { ...context, format: 'module' })
    return { ...loaded, source: strip(String(loaded.source)) }
  }
})

/** Tests compare the standard error of processes. Node itself warns of nothing here. */
function withoutWarning (run) {
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return run()
  } finally {
    process.emitWarning = emitWarning
  }
}

function strip (source) {
  const hash = createHash('sha1').update(source).digest('hex')
  const file = join(folder, `${hash}-${process.version}.js`)
  try {
    return readFileSync(file, 'utf8')
  } catch {
    const stripped = withoutWarning(() => stripTypeScriptTypes(source))
    const written = `${file}.${process.pid}`
    writeFileSync(written, stripped)
    renameSync(written, file)
    return stripped
  }
}
