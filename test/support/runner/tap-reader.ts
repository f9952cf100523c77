/**
 * What a tap run came to: its raw TAP read line by line, shown short, and counted.
 *
 * In charge of: one line per passed file, the failures of the others in full, the tests that were
 * not run with their reasons, and tap's own totals.
 * Refuses to: judge; the caller decides what an outcome means.
 */

export interface Counts {
  /** Test points (assertions) as tap itself counts them. */
  readonly passed: number
  readonly failed: number
  /** Skipped and todo together. */
  readonly left: number
}

export interface Reader {
  /** Takes the next line of TAP; answers the text to show now, if any. */
  take(line: string): string | undefined
  /** tap's totals; `undefined` when it ended without any. */
  counts(): Counts | undefined
  /** One text for each test that was skipped or is to do: which it is, its file, its name, why. */
  omissions(): readonly string[]
}

/** Passed points, plans, timings and blank lines say nothing about a failure. */
const noise = /^\s*(ok \d|\d+\.\.\d|# time=|$)/

/**
 * What tap tells about a file as a whole that is worth a line: how its process ended, or that it
 * took too long.
 */
const ending = /^ {2}(exitCode: [1-9]|signal: SIG|failure: |expired: |timeout: )/

/**
 * A reader of the raw TAP of `tap --reporter=tap`, whose top level has one subtest per test file.
 */
export function tapReader (): Reader {
  let block: string[] = []
  let details = false // inside the YAML that follows a file's own test point
  let counts: Counts | undefined
  /** Names of the subtests that the line is in, the file first. */
  let path: readonly string[] = []
  const omissions: string[] = []
  return {
    take (line) {
      counts = totals(line) ?? counts
      path = subtestPath(path, line)
      omissions.push(...omission(path, line))
      if (line === '  ---' || line === '  ...') details = line === '  ---'
      if (details) return ending.test(line) ? line : undefined
      if (line.startsWith('# Subtest: ') || line.startsWith('    ')) {
        block.push(line)
        return undefined
      }
      const failures = block.filter(one => !noise.test(one))
      if (/^(not )?ok \d/.test(line)) block = []
      if (/^not ok \d/.test(line)) return [...failures, line].join('\n')
      return /^(ok \d|# (?!\{|time=)|Bail out!)/.test(line) ? line : undefined
    },
    counts: () => counts,
    omissions: () => omissions
  }
}

/** tap indents a subtest by four spaces and names it first: `    # Subtest: a name`. */
function subtestPath (path: readonly string[], line: string): readonly string[] {
  const [, indent = '', name] = /^((?: {4})*)# Subtest: (.*)$/.exec(line) ?? []
  return name === undefined ? path : [...path.slice(0, indent.length / 4), plainText(name)]
}

/**
 * Of a line like `    ok 2 - a name # SKIP a reason`; nothing of any other line, nor of a test that
 * `--grep` left out. Some names repeat the reason.
 */
function omission (path: readonly string[], line: string): readonly string[] {
  const point = /^((?: {4})*)(?:not )?ok \d+ - (.*?) # (SKIP|TODO)(?: (.*))?$/.exec(line)
  if (point === null) return []
  const [, indent = '', name = '', directive, given = ''] = point
  if (/^filter(?: out)?: /.test(given)) return []
  const reason = plainText(given)
  const title = plainText(name).replace(` (skipped: ${reason})`, '')
  const names = [...path.slice(0, indent.length / 4), title].join(' > ')
  return [`${directive === 'SKIP' ? 'skipped' : 'to do'}: ${names}: ${reason || 'no reason given'}`]
}

/** In names and reasons tap writes `\#` for `#`, and two backslashes for one. */
function plainText (text: string): string {
  return text.replace(/\\([#\\])/g, '$1')
}

/**
 * tap closes a run with a comment like `# { total: 4, pass: 2, fail: 1, skip: 1 }`, zeros left out.
 */
function totals (line: string): Counts | undefined {
  if (!/^# \{ total: \d+/.test(line)) return undefined
  const number = (name: string) => Number(new RegExp(`\\b${name}: (\\d+)`).exec(line)?.[1] ?? 0)
  return { passed: number('pass'), failed: number('fail'), left: number('skip') + number('todo') }
}
