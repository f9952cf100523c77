/**
 * Renders rows as psql does: as an aligned table, or as one block per row when the table is wider
 * than the terminal. Numbers keep every digit, JSON takes one line, null is `(null)`.
 */
import stringWidth from 'string-width'
import { visible } from './terminal.ts'

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
