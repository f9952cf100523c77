/**
 * Keeps the generated parts of the documentation equal to what they are generated from: `npm run docs` writes them,
 * `npm run docs -- --check` changes nothing and fails when something would change.
 * In charge of the text between `<!-- name:begin -->` and `<!-- name:end -->`, for every entry of `blocks`; refuses to touch
 * anything else. Files are taken from the working directory.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import type { TObject, TSchema } from '@sinclair/typebox'
import { configItems, describeLimits, isRequired, type ConfigItem } from '../schemas/config.ts'
import { operands, operators } from '../schemas/filter.ts'
import { modifiers, type Modifier } from '../schemas/modifier.ts'
import { memberKinds, operations } from '../schemas/operation.ts'
import { preferenceItems } from '../schemas/prefer.ts'
import { catalogue } from '../src/errors/catalogue.ts'

interface Block {
  readonly file: string
  readonly name: string
  /** The whole text between the markers, in Markdown. */
  readonly render: () => string
}

const blocks: readonly Block[] = [
  { file: 'README.md', name: 'members', render: renderMembers },
  { file: 'README.md', name: 'errors', render: renderErrors },
  { file: 'README.md', name: 'config', render: renderConfig },
  { file: 'docs/language.md', name: 'members', render: renderMembers },
  { file: 'docs/language.md', name: 'operators', render: renderOperators },
  { file: 'docs/language.md', name: 'operands', render: renderOperands },
  { file: 'docs/language.md', name: 'modifiers', render: renderModifiers },
  { file: 'docs/language.md', name: 'preferences', render: renderPreferences }
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

function renderMembers (): string {
  return renderTable(['Member', 'On', 'Meaning'], [...memberKinds].map(([name, kinds]) => {
    const schemas: readonly TObject[] = kinds.map(kind => operations[kind])
    const on = kinds.length === Object.keys(operations).length ? 'all' : kinds.join(', ')
    const required = schemas.every(schema => schema.required?.includes(name))
    const meanings = new Set(schemas.map(({ properties }) => renderSchema(properties[name] as TSchema)))
    return [`\`${name}\``, required ? `${on}; required` : on, [...meanings].join(', ')]
  }))
}

/** What a schema says of itself; a constant says which it is. */
function renderSchema ({ description, const: constant }: TSchema): string {
  return description ?? `\`${String(constant)}\``
}

function renderOperators (): string {
  const rows = Object.entries(operators).map(([name, { sql, takes, meaning }]) => [`\`${name}\``, renderSql(sql), takes, meaning])
  return renderTable(['Operator', 'SQL', 'Takes', 'Meaning'], rows)
}

function renderOperands (): string {
  return renderTable(['Takes', 'Which is'], Object.entries(operands).map(([name, { description }]) => [name, description]))
}

function renderModifiers (): string {
  const all: ReadonlyArray<readonly [string, Modifier]> = Object.entries(modifiers)
  const rows = all.map(([name, { takes, meaning, conflict }]) => [`\`${name}\``, takes, conflict === true ? `${meaning}; in \`on_conflict\` alone` : meaning])
  return renderTable(['Modifier', 'Takes', 'Meaning'], rows)
}

function renderPreferences (): string {
  const rows = [...preferenceItems].map(([name, { anyOf, description }]) => [`\`${name}\``, anyOf.map(({ const: value }) => `\`${value}\``).join(', '), description])
  return renderTable(['Preference', 'Values', 'Meaning'], rows)
}

/** Without the brackets around its holes. */
function renderSql (sql: string): string {
  return `\`${sql.replace(/<(\w+)>/g, '$1')}\``
}

function renderErrors (): string {
  const rows = Object.entries(catalogue).map(([code, { type, status, meaning }]) => [`\`${type}\``, `\`${code}\``, String(status), meaning])
  return renderTable(['Type', 'Code', 'Status', 'Meaning'], rows)
}

function renderTable (head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
