/**
 * Generates the types of the clients in examples/clients/ with the commands of its page, and
 * compares what the clients print on the sample shop. A client is skipped where its language or the
 * generator, a package of that folder, is not installed.
 */
import { cpSync, existsSync, rmSync, symlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import { openTerminal, useShop, type Terminal } from '../support/docs/commands.ts'
import { readBlocks, readPage, root } from '../support/docs/pages.ts'
import { findProgram, needs } from '../support/process/programs.ts'

// A Go without a build cache compiles its standard library first.
t.setTimeout(120_000)

const FOLDER = 'examples/clients'
const GENERATED = new Set(['oneflight.py', 'oneflight.go', '__pycache__'])
const page = readPage(`${FOLDER}/README.md`)
const packages = join(root, FOLDER, 'node_modules')
const generator = join(packages, '.bin/quicktype')

/** Replaces the link to the examples by a copy without what is generated. */
function copyClients ({ folder }: Terminal): void {
  rmSync(join(folder, 'examples'))
  cpSync(join(root, FOLDER), join(folder, FOLDER), {
    recursive: true,
    filter: path => path !== packages && !GENERATED.has(basename(path))
  })
  symlinkSync(packages, join(folder, FOLDER, 'node_modules'))
}

for (const [language, program] of [['Python', 'python3'], ['Go', 'go']] as const) {
  const required = {
    [program]: findProgram(program),
    quicktype: existsSync(generator) ? generator : undefined
  }
  t.test(...needs(`the client in ${language} prints what its page shows`, required), async t => {
    const [commands, printed] = readBlocks(page.slice(page.indexOf(`## ${language}`)))
    const terminal = openTerminal(t, await useShop(t))
    copyClients(terminal)
    await terminal.run(`export GOCACHE='${join(root, '.tap/go')}' GOTOOLCHAIN=local GOPROXY=off`)
    const { code, stdout, stderr } = await terminal.run(commands?.text as string)
    t.equal(code, 0, stderr)
    t.equal(stdout.trim(), printed?.text.trim())
  })
}
