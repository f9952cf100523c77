/**
 * The package.json that is published: `pack` takes out what belongs to development alone and would
 * be installed with the package all the same (the optional dependencies are PostgreSQL servers, 300
 * MB of them), `restore` brings the file back. npm runs both around `npm pack` and `npm publish`.
 * Works in the working directory; refuses to change anything else.
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
      `${original} is left of a run that was interrupted: node scripts/manifest.ts restore`
    )
  }
  const text = readFileSync(file, 'utf8')
  const { optionalDependencies, allowScripts, ...published } = JSON.parse(text) as Readonly<
    Record<string, unknown>
  >
  writeFileSync(original, text)
  writeFileSync(file, `${JSON.stringify(published, null, 2)}\n`)
}
