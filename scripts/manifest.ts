/**
 * Prepares package.json for publication. `pack` removes entries that are only for development but
 * would be installed with the package: the optional dependency is a PostgreSQL server of 60 MB.
 * `restore` restores the file. npm runs both for `npm pack` and `npm publish`. Runs in the working
 * directory.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'

const [file, original] = ['package.json', '.package.json']

switch (process.argv[2]) {
  case 'pack':
    pack()
    break
  case 'restore':
    if (existsSync(original)) renameSync(original, file)
    break
  default:
    throw new Error('expected pack or restore')
}

function pack (): void {
  if (existsSync(original)) {
    throw new Error(
      `${original} exists: an earlier run was interrupted. Run "node scripts/manifest.ts restore".`
    )
  }
  const text = readFileSync(file, 'utf8')
  const { optionalDependencies, overrides, allowScripts, ...published } = JSON.parse(
    text
  ) as Readonly<Record<string, unknown>>
  writeFileSync(original, text)
  writeFileSync(file, `${JSON.stringify(published, null, 2)}\n`)
}
