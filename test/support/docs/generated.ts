/**
 * The pages with generated parts, without these: for tests of what writes them.
 */
import { readFileSync } from 'node:fs'

const files = [
  'README.md',
  'docs/reference/language.md',
  'docs/reference/filters.md',
  'docs/reference/preferences.md',
  'docs/reference/cli.md',
  'docs/operations/reliability.md'
]

/**
 * Each file with the markers of its generated parts, as the project has them, and a line around
 * them.
 */
export const emptyPages: Readonly<Record<string, string>> = Object.fromEntries(files.map(file => {
  const page = readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8')
  const blocks = [...page.matchAll(/^<!-- (\w+):begin -->$/gm)].map(([, name]) =>
    `<!-- ${name}:begin -->\n<!-- ${name}:end -->\n`
  )
  return [file, `# Before\n${blocks.join('')}After\n`]
}))

/** The same as a directory, as `t.testdir` takes it. */
export function emptyProject (): Directory {
  const project: Directory = {}
  for (const [file, text] of Object.entries(emptyPages)) {
    const folders = file.split('/')
    const name = folders.pop() as string
    let folder = project
    for (const part of folders) folder = (folder[part] ??= {}) as Directory
    folder[name] = text
  }
  return project
}

interface Directory {
  [name: string]: string | Directory
}
