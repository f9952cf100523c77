/**
 * Renders the result of an operation as psql does: its rows, or its query plan.
 *
 * Rows are an aligned table, or one block per row when the table is wider than the terminal.
 * Numbers keep every digit, JSON takes one line, null is `(null)`.
 */
import stringWidth from 'string-width'
import { tryParse } from '../json/try-parse.ts'
import { count, visible } from './terminal.ts'

/** JSON text by column, in the order of the response. */
export type Row = ReadonlyMap<string, string>

/** Right-aligned values. PostgreSQL sends numbers that JSON lacks as strings. */
const number = /^(?:[-\d]|null$|"(?:NaN|-?Infinity)"$)/

interface Cell {
  readonly lines: readonly string[]
  readonly right: boolean
}

/** Returns '' when there is no column. `columns` is the width of the terminal. */
export function renderTable (rows: readonly Row[], columns = Infinity): string {
  const names = [...new Set(rows.flatMap(row => [...row.keys()]))]
  if (names.length === 0) return ''
  const numeric = names.map(name => rows.every(row => number.test(row.get(name) ?? 'null')))
  const cells = rows.map(row =>
    names.map((name, i) => cellOf(row.get(name) ?? 'null', numeric[i] as boolean))
  )
  const heads = names.map(name => visible(name))
  const widths = heads.map((head, i) =>
    cells.reduce((most, row) => Math.max(most, cellWidth(row[i] as Cell)), stringWidth(head))
  )
  const whole = widths.reduce((sum, width) => sum + width + 3, -1)
  return whole > columns ? renderBlocks(heads, cells, columns) : renderGrid(heads, cells, widths)
}

function renderGrid (
  heads: readonly string[],
  rows: ReadonlyArray<readonly Cell[]>,
  widths: readonly number[]
): string {
  const head = heads.map((text, i) => ` ${center(text, widths[i] as number)} `).join('|').trimEnd()
  const rule = widths.map(width => '-'.repeat(width + 2)).join('+')
  return [head, rule, ...rows.flatMap(row => renderRow(row, widths))].map(line => `${line}\n`).join(
    ''
  )
}

/** As many lines as the tallest cell. `+` marks a cell that continues. */
function renderRow (row: readonly Cell[], widths: readonly number[]): readonly string[] {
  const height = Math.max(...row.map(({ lines }) => lines.length))
  return Array.from(
    { length: height },
    (_, n) =>
      row.map(({ lines, right }, i) =>
        ` ${pad(lines[n] ?? '', widths[i] as number, right)}${n + 1 < lines.length ? '+' : ' '}`
      ).join('|').trimEnd()
  )
}

function renderBlocks (
  heads: readonly string[],
  rows: ReadonlyArray<readonly Cell[]>,
  columns: number
): string {
  const label = Math.max(...heads.map(head => stringWidth(head)))
  const value = rows.flat().reduce((most, cell) => Math.max(most, cellWidth(cell)), 0)
  return rows.map((row, n) => {
    const rule = `-[ ROW ${n + 1} ]`.padEnd(Math.min(label + value + 3, columns), '-')
    const lines = row.flatMap(({ lines }, i) =>
      lines.map((line, k) =>
        `${pad(k === 0 ? heads[i] as string : '', label, false)} | ${
          k + 1 < lines.length ? `${pad(line, value, false)}+` : line
        }`.trimEnd()
      )
    )
    return [rule, ...lines].map(line => `${line}\n`).join('')
  }).join('')
}

function cellOf (json: string, right: boolean): Cell {
  if (json === 'null') return { lines: ['(null)'], right }
  const text = json.startsWith('"') ? JSON.parse(json) as string : json
  return { lines: visible(text, { lines: true }).split('\n'), right }
}

function cellWidth ({ lines }: Cell): number {
  return lines.reduce((most, line) => Math.max(most, stringWidth(line)), 0)
}

function pad (text: string, width: number, right: boolean): string {
  const space = ' '.repeat(width - stringWidth(text))
  return right ? space + text : text + space
}

function center (text: string, width: number): string {
  const left = Math.floor((width - stringWidth(text)) / 2)
  return pad(' '.repeat(left) + text, width, false)
}

// Query plans. Steps in which the service converts values and returns rows are left out.

/** A node of EXPLAIN (FORMAT JSON). Which members it has depends on its type. */
type PlanNode = Readonly<Record<string, unknown>> & { readonly Plans?: readonly PlanNode[] }

/** Members that are part of the title or the tree, or that psql does not show. */
const NOT_DETAILS = new RegExp(`^(?:${
  'Node Type|Operation|Strategy|Partial Mode|Parallel Aware|Async Capable|Join Type|Inner Unique|' +
  'Scan Direction|Index Name|Relation Name|Function Name|CTE Name|Alias|Parent Relationship|' +
  'Subplan Name|Startup Cost|Total Cost|Plan Rows|Plan Width|Plans'
})$`)

const AGGREGATES: Readonly<Record<string, string>> = {
  Plain: 'Aggregate',
  Sorted: 'GroupAggregate',
  Hashed: 'HashAggregate',
  Mixed: 'MixedAggregate'
}

/**
 * Renders the JSON `[{"Plan": {…}}]` of one operation. Returns undefined if it is something else.
 * Lines end with a newline.
 */
export function renderQueryPlan (json: string): string | undefined {
  const value = tryParse(json)
  const root = Array.isArray(value) ? (value[0] as { readonly Plan?: PlanNode })?.Plan : undefined
  if (root === undefined) return undefined
  const shown = findOperation(root)
  const hidden = countNodes([root]) - countNodes(shown)
  const note = `(${count(hidden, 'step')} to compute values or return rows not shown; see --json)`
  const lines = shown.flatMap(node => renderNode(node, 0))
  return [...lines, ...hidden === 0 ? [] : [note]].map(line => `${line}\n`).join('')
}

/**
 * The nodes of the operation: below the outer Limit, what reads or writes a table. Everything, if
 * nothing does.
 */
function findOperation (root: PlanNode): readonly PlanNode[] {
  const parts = childrenOf(root).filter(usesTable).flatMap(simplify)
  return parts.length === 0 ? [root] : parts
}

function simplify (node: PlanNode): readonly PlanNode[] {
  const children = childrenOf(node).filter(child => !isConversion(child)).flatMap(simplify)
  return isWrapper(node) ? children : [{ ...node, Plans: children }]
}

function isWrapper (node: PlanNode): boolean {
  return node['Node Type'] === 'Subquery Scan' && /^[pqr]$/.test(String(node['Alias']))
}

/** Values of the batch: `InitPlan`s without a table. */
function isConversion (node: PlanNode): boolean {
  return node['Parent Relationship'] === 'InitPlan' && !usesTable(node)
}

function usesTable (node: PlanNode): boolean {
  return 'Relation Name' in node || childrenOf(node).some(usesTable)
}

function childrenOf ({ Plans = [] }: PlanNode): readonly PlanNode[] {
  return Plans
}

function countNodes (nodes: readonly PlanNode[]): number {
  return nodes.reduce((sum, node) => sum + 1 + countNodes(childrenOf(node)), 0)
}

function renderNode (node: PlanNode, indent: number): readonly string[] {
  const space = ' '.repeat(indent + 2)
  const details = Object.entries(node).filter(([name]) => !NOT_DETAILS.test(name)).flatMap(
    ([name, value]) => describe(value).map(text => `${space}${name}: ${text}`)
  )
  const children = childrenOf(node).flatMap(child => {
    const label = child['Subplan Name']
    const width = indent + (label === undefined ? 6 : 8)
    const [first = '', ...rest] = renderNode(child, width)
    const line = `${' '.repeat(width - 4)}->  ${first}`
    return label === undefined ? [line, ...rest] : [`${space}${String(label)}`, line, ...rest]
  })
  return [`${titleOf(node)}  ${costOf(node)}`, ...details, ...children]
}

/** A string, a list, or a number or boolean that is not 0 or false. */
function describe (value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.every(isText) ? [value.join(', ')] : []
  return isText(value) || value === true || Number(value) > 0 ? [String(value)] : []
}

function isText (value: unknown): value is string {
  return typeof value === 'string'
}

/** `Index Scan using orders_pkey on orders t`. */
function titleOf (node: PlanNode): string {
  const index = node['Index Name']
  const name = node['Relation Name'] ?? node['Function Name'] ?? node['CTE Name']
  const alias = node['Alias'] === name ? undefined : node['Alias']
  const target = [name, alias].filter(isText).map(quote).join(' ')
  return [
    typeOf(node),
    ...node['Scan Direction'] === 'Backward' ? ['Backward'] : [],
    ...index === undefined ? [] : [name === undefined ? 'on' : 'using', quote(String(index))],
    ...target === '' ? [] : ['on', target]
  ].join(' ')
}

function quote (name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`
}

function typeOf (node: PlanNode): string {
  const { 'Partial Mode': mode = 'Simple', 'Join Type': join = 'Inner' } = node
  const type = String(node['Operation'] ?? node['Node Type'])
  return [
    ...node['Parallel Aware'] === true ? ['Parallel'] : [],
    ...mode === 'Simple' ? [] : [mode],
    type === 'Aggregate' ? AGGREGATES[String(node['Strategy'])] : type.replace(/ Join$/, ''),
    ...join !== 'Inner' ? [join, 'Join'] : type.endsWith(' Join') ? ['Join'] : []
  ].join(' ')
}

function costOf (node: PlanNode): string {
  const [startup, total] = [node['Startup Cost'], node['Total Cost']].map(cost =>
    Number(cost).toFixed(2)
  )
  return `(cost=${startup}..${total} rows=${String(node['Plan Rows'])} width=${
    String(node['Plan Width'])
  })`
}
