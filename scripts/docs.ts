/**
 * Generates the parts of the documentation between `<!-- name:begin -->` and `<!-- name:end -->`,
 * one for each entry of `blocks`. `npm run docs` writes them. `npm run docs -- --check` writes
 * nothing and fails if a part is out of date. The JSON Schema of batch files, to which the files of
 * deploy/batches refer, and the list of pages for assistants are generated as a whole. Paths are
 * relative to the working directory.
 */
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import type { TObject, TSchema } from '@sinclair/typebox'
import { growthTables, readSources } from '../test/experiments/growth/page.ts'
import { renderSummary } from '../bench/ratios.ts'
import { readRecord } from '../bench/record.ts'
import { renderPatroniFigures } from '../test/experiments/patroni/figures.ts'
import { configItems, describeLimits, type ConfigItem } from '../schemas/config.ts'
import { modifiers, type Modifier } from '../schemas/modifier.ts'
import { operands } from '../schemas/operand.ts'
import { memberKinds, operations, type OperationKind } from '../schemas/operation.ts'
import { operators } from '../schemas/operator.ts'
import { describeValue, preferenceItems } from '../schemas/prefer.ts'
import { commands, describeOption, writeOption, type CommandName } from '../src/cli/commands.ts'
import { writeBatchSchema } from '../src/cli/schema.ts'
import { readLimits } from '../src/config/config.ts'
import { catalogue } from '../src/errors/catalogue.ts'
import { isReached, type Figure } from '../test/experiments/scenario.ts'
import {
  figuresFile,
  promises,
  readFigures,
  type Evidence,
  type Promised,
  type ScenarioRun
} from '../test/promises.ts'
import { slips, type Slip } from '../test/slips.ts'

interface Block {
  readonly file: string
  readonly name: string
  /** Returns the text between the markers, in Markdown. */
  readonly render: () => string
}

const blocks: readonly Block[] = [
  { file: 'README.md', name: 'bench', render: () => renderSummary(readRecord()) },
  { file: 'docs/internals/promises.md', name: 'promises', render: renderPromises },
  { file: 'docs/reference/configuration.md', name: 'config', render: renderConfig },
  { file: 'docs/reference/errors.md', name: 'errors', render: renderErrors },
  { file: 'docs/reference/errors.md', name: 'slips', render: renderSlips },
  { file: 'docs/reference/language.md', name: 'members', render: renderMembers },
  { file: 'docs/reference/filters.md', name: 'operators', render: renderOperators },
  { file: 'docs/reference/filters.md', name: 'operands', render: renderOperands },
  { file: 'docs/reference/language.md', name: 'modifiers', render: renderModifiers },
  { file: 'docs/reference/preferences.md', name: 'preferences', render: renderPreferences },
  { file: 'docs/reference/named-batches.md', name: 'transfer', render: renderTransfer },
  { file: 'docs/reference/cli.md', name: 'commands', render: renderCommands },
  ...(Object.keys(commands) as CommandName[]).map((name): Block => ({
    file: 'docs/reference/cli.md',
    name,
    render: () => renderCommand(name)
  })),
  { file: 'docs/operations/reliability.md', name: 'figures', render: renderFigures },
  { file: 'docs/operations/reliability.md', name: 'patroni', render: renderPatroniFigures },
  ...Object.entries(growthTables).map(([name, render]): Block => ({
    file: 'docs/operations/growth.md',
    name,
    render: () => render(readSources())
  }))
]

const check = process.argv.includes('--check')
for (const file of new Set(blocks.map(block => block.file))) {
  update(file, text => blocks.filter(block => block.file === file).reduce(replaceBlock, text))
}
update('schemas/batch-file.json', () => writeBatchSchema(readLimits({})))
update('llms.txt', renderPages)

function update (file: string, change: (text: string) => string): void {
  const before = existsSync(file) ? readFileSync(file, 'utf8') : ''
  const after = change(before)
  if (after === before) return
  if (!check) return writeFileSync(file, after)
  console.error(`${file} is out of date: run "npm run docs"`)
  process.exitCode = 1
}

function replaceBlock (text: string, { file, name, render }: Block): string {
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`]
  const from = text.indexOf(begin)
  const to = text.indexOf(end, from)
  if (from < 0 || to < 0) throw new Error(`${file} has no "${begin}" … "${end}"`)
  return `${text.slice(0, from + begin.length)}\n${render()}\n${text.slice(to)}`
}

/** All pages in the format of https://llmstxt.org: their titles and first sentences. */
function renderPages (): string {
  const sections: ReadonlyArray<readonly [title: string, pages: string]> = [
    ['Guides', '{AGENTS.md,docs/guides/*.md,examples/{README.md,*/README.md}}'],
    ['Reference', 'docs/reference/*.md'],
    ['Operations', '{docs/operations/*.md,deploy/*/README.md}'],
    ['Optional', '{CHANGELOG.md,CONTRIBUTING.md,SECURITY.md,docs/{internals,decisions}/*.md}']
  ]
  const { title, start } = readStart('README.md')
  const lists = sections.map(([name, pages]) => {
    const links = globSync(pages).sort().map(page => {
      const { title, start } = readStart(page)
      return `- [${title}](${page}): ${/^.+?\.(?= |$)/.exec(start)?.[0] ?? start}`
    })
    return [`## ${name}`, '', ...links].join('\n')
  })
  return `${[`# ${title}`, `> ${start}`, ...lists].join('\n\n')}\n`
}

/** The heading of a page, and its first paragraph as one line without links. */
function readStart (page: string): { readonly title: string, readonly start: string } {
  const [heading = '', start = ''] = readFileSync(page, 'utf8').split('\n\n')
    .filter(text => !text.startsWith('## '))
  return {
    title: heading.replace(/^# (.*)[^]*/, '$1'),
    start: start.replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1').replaceAll('\n', ' ')
      .replace(/:$/, '.')
  }
}

function renderConfig (): string {
  const rows = configItems.map(([name, item]) => [
    `\`${name}\``,
    renderDefault(item),
    renderMeaning(item)
  ])
  return renderTable(['Variable', 'Default', 'Meaning'], rows)
}

function renderDefault ({ default: value, defaultText, unit }: ConfigItem): string {
  if (value === undefined) return defaultText ?? '–'
  return `\`${String(value)}\`${unit === undefined ? '' : ` ${unit}`}`
}

function renderMeaning (item: ConfigItem): string {
  const limits = describeLimits(item)
  return `${item.description}${limits === '' ? '' : ` (${limits})`}`
}

function renderMembers (): string {
  return renderTable(['Member', 'On', 'Meaning'], [...memberKinds].flatMap(renderMember))
}

/** A member that means something else in another kind of operation has a row for each meaning. */
function renderMember ([name, kinds]: readonly [string, readonly OperationKind[]]): string[][] {
  const schemaOf = (kind: OperationKind): TSchema =>
    (operations[kind] as TObject).properties[name] as TSchema
  if (kinds.every(kind => schemaOf(kind).description === undefined)) {
    return [renderUse(name, kinds, kinds.map(kind => renderSchema(schemaOf(kind))).join(', '))]
  }
  const meanings = Map.groupBy(kinds, kind => renderSchema(schemaOf(kind)))
  return [...meanings].map(([meaning, users]) => renderUse(name, users, meaning))
}

function renderUse (name: string, kinds: readonly OperationKind[], meaning: string): string[] {
  const on = kinds.length === Object.keys(operations).length ? 'all' : kinds.join(', ')
  const required = kinds.every(kind => (operations[kind] as TObject).required?.includes(name))
  return [`\`${name}\``, required ? `${on}; required` : on, meaning]
}

function renderSchema ({ meaning, description, const: constant }: TSchema): string {
  return (meaning as string | undefined) ?? description ?? `\`${String(constant)}\``
}

function renderOperators (): string {
  const rows = Object.entries(operators).map(([name, { sql, takes, meaning }]) =>
    [`\`${name}\``, renderSql(sql), takes, meaning]
  )
  return renderTable(['Operator', 'SQL', 'Takes', 'Meaning'], rows)
}

function renderOperands (): string {
  return renderTable(
    ['Takes', 'Which is'],
    Object.entries(operands).map(([name, { description }]) => [name, description])
  )
}

function renderModifiers (): string {
  const all: ReadonlyArray<readonly [string, Modifier]> = Object.entries(modifiers)
  const rows = all.map(([name, { takes, meaning, conflict, joined }]) => [
    `\`${name}\``,
    takes,
    conflict === true
      ? `${meaning}; only in \`on_conflict\``
      : joined === true ? `${meaning}; only beside \`from\`` : meaning
  ])
  return renderTable(['Modifier', 'Takes', 'Meaning'], rows)
}

function renderPreferences (): string {
  const rows = [...preferenceItems].map(([name, { anyOf, description }]) => [
    `\`${name}\``,
    anyOf.map(({ const: value }) => describeValue(value)).join(', '),
    description
  ])
  return renderTable(['Preference', 'Values', 'Meaning'], rows)
}

function renderCommands (): string {
  const rows = Object.entries(commands).map(([name, { operands, summary }]) =>
    [`\`oneflight ${`${name} ${operands}`.trim()}\``, summary]
  )
  return renderTable(['Command', 'What it does'], rows)
}

/** The notes and options of a command, without `--help`, which every command has. */
function renderCommand (name: CommandName): string {
  const { notes, options } = commands[name]
  const rows = Object.entries(options).filter(([option]) => option !== 'help')
    .map(([option, item]) => [`\`${writeOption(option, item)}\``, describeOption(item)])
  const table = rows.length === 0 ? [] : [renderTable(['Option', 'Meaning'], rows)]
  return [...notes.map(note => wrapText(note)), ...table].join('\n\n')
}

function renderTransfer (): string {
  const file = new URL('../deploy/batches/transfer.json', import.meta.url)
  return `\`\`\`json\n${readFileSync(file, 'utf8')}\`\`\``
}

/** SQL without the brackets around its placeholders. */
function renderSql (sql: string): string {
  return `\`${sql.replace(/<(\w+)>/g, '$1')}\``
}

function renderErrors (): string {
  const rows = Object.entries(catalogue).map(([code, { type, status, meaning }]) =>
    [`\`${type}\``, `\`${code}\``, String(status), meaning]
  )
  return renderTable(['Type', 'Code', 'Status', 'Meaning'], rows)
}

function renderSlips (): string {
  const rows = slips.map(slip => [`\`${slip.mistake}\``, renderAnswer(slip)])
  return renderTable(['Sent', 'Answer'], rows)
}

function renderAnswer ({ status, code, path, message }: Slip): string {
  const place = path === undefined ? '' : ` at \`${path.join('.')}\``
  return `${status} \`${code}\`${place}: \`${message}\``
}

function renderPromises (): string {
  const groups = [...Map.groupBy(promises, ({ group }) => group)]
  return groups.map(([group, members]) =>
    `## ${group}\n\n${members.map(renderPromise).join('\n')}`
  ).join('\n\n')
}

function renderPromise ({ number, text, tests }: Promised): string {
  return [wrapText(`- **${number}.** ${text}`, '  '), ...tests.map(renderEvidence)].join('\n')
}

function renderEvidence ([file, what]: Evidence): string {
  const link = `  - [${file}](../../test/${file}.test.ts)`
  return what === undefined ? link : wrapText(`${link}: ${what}`, '    ')
}

/**
 * The measurements of the scenarios that support promises. Counts of faults and of broken promises
 * are many, and only those that miss their goal are shown.
 */
function renderFigures (): string {
  const runs = readRuns()
  if (runs.length === 0) return 'Nothing is measured yet. Run `npm run test:chaos`.'
  const goals = runs.flatMap(({ scenario, figures }) => figures.flatMap(figure =>
    figure.goal === undefined ? [] : [{ scenario, figure, goal: figure.goal }]))
  const zeros = goals.filter(({ goal }) => goal.exactly === 0)
  const reached = (of: typeof goals): number => of.filter(({ figure }) => isReached(figure)).length
  const rows = goals.filter(({ figure }) => figure.unit !== '' || !isReached(figure)).map(
    ({ scenario, figure, goal }) =>
      [scenario, figure.name, renderValue(figure), renderGoal(goal, figure)]
  )
  return [
    wrapText(
      `${reached(goals)} of ${goals.length} goals are reached, among them ${reached(zeros)} of ` +
        `the ${zeros.length} counts that must be 0, such as batches applied twice. ` +
        `[figures.json](../../${figuresFile}) has all figures.`
    ),
    renderTable(['Scenario', 'Figure', 'Measured', 'Goal'], rows),
    renderRuns(runs)
  ].join('\n\n')
}

function readRuns (): readonly ScenarioRun[] {
  return existsSync(figuresFile) ? readFigures(readFileSync(figuresFile, 'utf8')) : []
}

/** Says when, where and of what each scenario was measured; one row for those of one run. */
function renderRuns (runs: readonly ScenarioRun[]): string {
  const cellsOf = ({ date, commit, seed, node, postgres, cores }: ScenarioRun): string[] => {
    const cells = [date.slice(0, 10), commit.slice(0, 7), seed, node.replace(/^v/, '')]
    return [...cells, postgres, cores].map(String)
  }
  const groups = Map.groupBy(runs, run => cellsOf(run).join())
  return renderTable(
    ['Scenario', 'Measured on', 'Commit', 'Seed', 'Node', 'PostgreSQL', 'Cores'],
    [...groups.values()].map(group => [
      group.map(({ scenario }) => `\`${scenario}\``).join(', '),
      ...group.slice(0, 1).flatMap(cellsOf)
    ])
  )
}

function renderValue (figure: Figure): string {
  return isReached(figure)
    ? renderNumber(figure.value, figure)
    : `**${renderNumber(figure.value, figure)}, goal missed**`
}

function renderGoal (
  { atLeast, atMost, exactly }: NonNullable<Figure['goal']>,
  figure: Figure
): string {
  const bounds = [['=', exactly], ['≥', atLeast], ['≤', atMost]] as const
  return bounds.flatMap(([sign, bound]) =>
    bound === undefined ? [] : [`${sign} ${renderNumber(bound, figure)}`]
  ).join(', ')
}

/** Ratios are shown as per cent; values from 100 on have no decimals. */
function renderNumber (value: number, { unit }: Figure): string {
  const shown = unit === '%' ? value * 100 : value
  const text = Number.isInteger(shown) || Math.abs(shown) >= 100
    ? shown.toFixed(0)
    : String(Number(shown.toFixed(2)))
  return `${text.replace(/\B(?=(\d{3})+$)/g, ' ')}${unit === '' ? '' : ` ${unit}`}`
}

/** Breaks long lines at 96 columns; each further line begins with `indent`. */
function wrapText (text: string, indent = ''): string {
  return text.replaceAll(/(?=.{97})(.{1,96}) /g, `$1\n${indent}`)
}

function renderTable (head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
