/**
 * Lists the files of the project. Files that somebody has added to the checkout do not count, such
 * as those of the getting-started guide.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { join, matchesGlob, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')

/** What counts in the root without git. */
const ROOT = new RegExp(
  '^(?:(?:\\.ci|\\.github|bench|client|deploy|docs|examples|plugins|schemas|scripts|src|test)/|' +
    '[^/]+\\.(?:md|js|json|txt|yaml)$|Dockerfile$|LICENSE$)'
)

/** What is not in a repository. */
const IGNORED = /^(?:dist|node_modules|__pycache__)$/

/** Paths relative to the root, in order. Without git, as in a tarball, those of its folders. */
export const trackedFiles: readonly string[] = (listTracked() ?? listAll()).sort()

/** The files that match one of the patterns. */
export function findTracked (...patterns: readonly string[]): readonly string[] {
  return trackedFiles.filter(file => patterns.some(pattern => matchesGlob(file, pattern)))
}

/** The names in the root of the project that do not begin with a dot, and node_modules. */
export function listRoot (): readonly string[] {
  const names = trackedFiles.map(file => file.split('/', 1)[0] as string)
  return [...new Set(names), 'node_modules'].filter(name => !name.startsWith('.'))
}

/** Undefined if git does not know the folder. */
function listTracked (): string[] | undefined {
  const { status, stdout } = spawnSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' })
  const files = stdout?.split('\0').filter(file => file !== '' && existsSync(join(root, file)))
  return status === 0 && files.includes('package.json') ? files : undefined
}

function listAll (): string[] {
  return globSync(['**/*', '{.ci,.github}/**/*'], {
    cwd: root,
    withFileTypes: true,
    exclude: ({ name }) => IGNORED.test(name)
  })
    .filter(entry => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(root.length + 1))
    .filter(file => ROOT.test(file))
}
