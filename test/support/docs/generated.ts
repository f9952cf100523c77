/** The pages with generated parts, with empty parts, for tests of the generator. */
import { readFileSync } from 'node:fs'

const files = [
  'README.md',
  'docs/internals/promises.md',
  'docs/reference/configuration.md',
  'docs/reference/errors.md',
  'docs/reference/language.md',
  'docs/reference/filters.md',
  'docs/reference/preferences.md',
  'docs/reference/named-batches.md',
  'docs/reference/cli.md',
  'docs/operations/growth.md',
  'docs/operations/reliability.md'
]

/** Maps each file to its markers without content, between two lines of text. */
export const emptyPages: Readonly<Record<string, string>> = Object.fromEntries(files.map(file => {
  const page = readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8')
  const blocks = [...page.matchAll(/^<!-- (\w+):begin -->$/gm)].map(([, name]) =>
    `<!-- ${name}:begin -->\n<!-- ${name}:end -->\n`
  )
  return [file, `# Before\n${blocks.join('')}After\n`]
}))

/** The same pages as a directory for `t.testdir`, with a folder for the generated schema. */
export function emptyProject (): Directory {
  const project: Directory = { schemas: {} }
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
