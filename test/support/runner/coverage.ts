/**
 * Lists what the suite did not cover: file, lines, branches, functions. Reads the report of tap and
 * also names source files that no test loads, which tap does not see.
 *
 * A child process counts if it is spawned with Node's child_process and exits on its own, also
 * after SIGTERM with a handler. The coverage of a process killed by SIGKILL is lost.
 */
import { cpSync, existsSync, globSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join, relative, resolve } from 'node:path'

interface Span {
  readonly start: { readonly line: number }
  readonly end: { readonly line: number }
}

/** The members of istanbul's file report that are read here. */
interface FileReport {
  readonly statementMap: Readonly<Record<string, Span>>
  readonly s: Readonly<Record<string, number>>
  readonly branchMap: Readonly<Record<string, { readonly locations: readonly Span[] }>>
  readonly b: Readonly<Record<string, readonly number[]>>
  readonly fnMap: Readonly<Record<string, { readonly name: string, readonly loc: Span }>>
  readonly f: Readonly<Record<string, number>>
}

/** What the processes of a run have covered; tap deletes it when the next run starts. */
const DATA = '.tap/coverage'
const KEPT = '.tap/coverage-before'

/** Keeps what a run has covered for the next one. */
export function keepCoverage (root: string): void {
  rmSync(join(root, KEPT), { recursive: true, force: true })
  if (existsSync(join(root, DATA))) renameSync(join(root, DATA), join(root, KEPT))
}

/** Adds what the run before has covered. The report of tap is then about both. */
export function addKeptCoverage (root: string): void {
  if (existsSync(join(root, KEPT))) cpSync(join(root, KEPT), join(root, DATA), { recursive: true })
}

/** Returns one line for each file without full coverage, with paths relative to `root`. */
export function coverageGaps (
  root: string,
  sources = ['src/**/*.ts', 'plugins/**/*.ts', 'schemas/**/*.ts', 'client/src/**/*.ts']
): string[] {
  const file = resolve(root, '.tap/report/coverage-final.json')
  const report = existsSync(file)
    ? JSON.parse(readFileSync(file, 'utf8')) as Record<string, FileReport>
    : {}
  const missing = globSync(sources, { cwd: root }).sort().filter(path =>
    !(resolve(root, path) in report) && hasCode(resolve(root, path))
  )
  return [
    ...Object.entries(report).flatMap(([path, one]) => describe(relative(root, path), one)),
    ...missing.map(path => `${path}: no test loads it`)
  ]
}

function describe (
  path: string,
  { statementMap, s, branchMap, b, fnMap, f }: FileReport
): string[] {
  const lines = Object.entries(statementMap).filter(([id]) => s[id] === 0).map(([, span]) =>
    span.start.line
  )
  const missed = Object.entries(branchMap).flatMap(([id, { locations }]) =>
    locations.filter((_, index) => b[id]?.[index] === 0)
  )
  const branches = [
    ...new Set(
      missed.map(({ start, end }) =>
        start.line === end.line ? `${start.line}` : `${start.line}-${end.line}`
      )
    )
  ]
  const functions = Object.entries(fnMap).filter(([id]) => f[id] === 0).map(([, { name, loc }]) =>
    `${name} (${loc.start.line})`
  )
  const found = [
    ...lines.length > 0 ? [`lines ${ranges(lines)}`] : [],
    ...branches.length > 0 ? [`branches ${branches.join(', ')}`] : [],
    ...functions.length > 0 ? [`functions ${functions.join(', ')}`] : []
  ]
  return found.length > 0 ? [`${path}: ${found.join('; ')}`] : []
}

/** 3, 4, 5, 9 → "3-5, 9". */
function ranges (lines: readonly number[]): string {
  const spans: Array<[number, number]> = []
  for (const line of [...lines].sort((a, b) => a - b)) {
    const last = spans.at(-1)
    if (last !== undefined && line <= last[1] + 1) last[1] = line
    else spans.push([line, line])
  }
  return spans.map(([from, to]) => from === to ? `${from}` : `${from}-${to}`).join(', ')
}

/** A file with only types has no code at run time, so no test can load it. */
function hasCode (path: string): boolean {
  const code = stripTypeScriptTypes(readFileSync(path, 'utf8')).replace(
    /\/\*[\s\S]*?\*\/|\/\/.*$/gm,
    ''
  )
  return code.trim() !== ''
}
