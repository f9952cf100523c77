/**
 * Prepares files for publication. `pack` removes entries of package.json that are only for
 * development but would be installed with the package: the optional dependency is a PostgreSQL
 * server of 60 MB. In the packed pages, it replaces links to files that are not packed by their
 * text. `restore` restores the files. npm runs both for `npm pack` and `npm publish`. Runs in the
 * working directory.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'

/** The folder of the original files while changed ones are packed. */
const originals = '.unpacked'

switch (process.argv[2]) {
  case 'pack':
    pack()
    break
  case 'restore':
    if (existsSync(originals)) restore()
    break
  default:
    throw new Error('expected pack or restore')
}

function pack (): void {
  if (existsSync(originals)) {
    throw new Error(
      `${originals} exists: an earlier run was interrupted. ` +
        'Run "node scripts/manifest.ts restore".'
    )
  }
  const text = readFileSync('package.json', 'utf8')
  const { optionalDependencies, overrides, allowScripts, ...published } = JSON.parse(
    text
  ) as Readonly<Record<string, unknown>>
  // npm packs the last two although `files` does not name them.
  const packed = [...published['files'] as readonly string[], 'README.md', 'LICENSE']
  const pages = packed.filter(path => path.endsWith('.md')).map(path =>
    [path, removeDeadLinks(readFileSync(path, 'utf8'), packed)] as const)
  mkdirSync(originals)
  replace('package.json', `${JSON.stringify(published, null, 2)}\n`)
  for (const [path, page] of pages) replace(path, page)
}

/** Renaming is atomic: an interruption leaves the complete original. */
function replace (path: string, text: string): void {
  renameSync(path, join(originals, path))
  writeFileSync(path, text)
}

function restore (): void {
  for (const path of readdirSync(originals)) renameSync(join(originals, path), path)
  rmdirSync(originals)
}

/**
 * Replaces links to files that are not packed by their text, and removes such images. Code is
 * unchanged.
 */
function removeDeadLinks (page: string, packed: readonly string[]): string {
  return page.replaceAll(
    /```[^]*?```|`[^`\n]*`|(!?)\[([^\][]*)\]\(([^()\s#]+)(?:#[^()\s]*)?\)/g,
    (found, image: string, text: string, target?: string) => {
      const isAlive = target === undefined || URL.canParse(target) ||
        packed.some(path => target === path || target.startsWith(`${path}/`))
      if (isAlive) return found
      return image === '' ? text : ''
    }
  )
}
