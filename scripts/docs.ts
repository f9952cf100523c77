/**
 * Keeps the generated parts of the documentation equal to what they are generated from: `npm run docs` writes them,
 * `npm run docs -- --check` changes nothing and fails when something would change.
 * In charge of the text between `<!-- name:begin -->` and `<!-- name:end -->`, for every entry of `blocks`; refuses to touch
 * anything else. Files are taken from the working directory.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { configItems, describeLimits, isRequired, type ConfigItem } from '../schemas/config.ts'
import { operators } from '../schemas/filter.ts'
import { catalogue } from '../src/errors/catalogue.ts'

interface Block {
  readonly file: string
  readonly name: string
  /** The whole text between the markers, in Markdown. */
  readonly render: () => string
}

const blocks: readonly Block[] = [
  { file: 'README.md', name: 'config', render: renderConfig },
  { file: 'README.md', name: 'operators', render: renderOperators },
  { file: 'README.md', name: 'errors', render: renderErrors }
]

const check = process.argv.includes('--check')
for (const file of new Set(blocks.map(block => block.file))) update(file)

function update (file: string): void {
  const before = readFileSync(file, 'utf8')
  const after = blocks.filter(block => block.file === file).reduce(replaceBlock, before)
  if (after === before) return
  if (!check) return writeFileSync(file, after)
  console.error(`${file} is not up to date: run "npm run docs"`)
  process.exitCode = 1
}

function replaceBlock (text: string, { file, name, render }: Block): string {
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`]
  const from = text.indexOf(begin)
  const to = text.indexOf(end, from)
  if (from < 0 || to < 0) throw new Error(`${file} has no "${begin}" … "${end}"`)
  return `${text.slice(0, from + begin.length)}\n${render()}\n${text.slice(to)}`
}

function renderConfig (): string {
  const rows = configItems.map(([name, item]) => [`\`${name}\``, renderDefault(isRequired(name, item), item), renderMeaning(item)])
  return renderTable(['Variable', 'Default', 'Meaning'], rows)
}

function renderDefault (required: boolean, { default: value, defaultText, unit }: ConfigItem): string {
  if (required) return '**required**'
  if (value === undefined) return defaultText ?? '–'
  return `\`${String(value)}\`${unit === undefined ? '' : ` ${unit}`}`
}

function renderMeaning (item: ConfigItem): string {
  const limits = describeLimits(item)
  return `${item.description}${limits === '' ? '' : ` (${limits})`}`
}

function renderOperators (): string {
  return renderTable(['Operator', 'SQL', 'Meaning'], Object.entries(operators).map(([name, { sql, meaning }]) => [`\`${name}\``, `\`${sql}\``, meaning]))
}

function renderErrors (): string {
  const rows = Object.entries(catalogue).map(([code, { type, status, meaning }]) => [`\`${type}\``, `\`${code}\``, String(status), meaning])
  return renderTable(['Type', 'Code', 'Status', 'Meaning'], rows)
}

function renderTable (head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
