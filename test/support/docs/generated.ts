/**
 * The pages with generated parts, without these: for tests of what writes them.
 */
import { readFileSync } from 'node:fs'

const files = ['README.md', 'docs/language.md', 'docs/cli.md', 'docs/reliability.md']

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
export function emptyProject (): {
  readonly [name: string]: string | Readonly<Record<string, string>>
} {
  const docs = Object.fromEntries(
    Object.entries(emptyPages).filter(([file]) => file.startsWith('docs/')).map((
      [file, text]
    ) => [file.slice('docs/'.length), text])
  )
  return { 'README.md': emptyPages['README.md'] as string, docs }
}
