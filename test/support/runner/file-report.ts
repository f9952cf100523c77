/**
 * Reads the TAP output of one test file: its failures in full, and its skipped tests with their
 * reasons.
 */

export interface FileReport {
  /** Takes the next line of TAP. */
  add(line: string): void
  /** Returns the output that explains failures, without passed assertions, plans and timings. */
  failures(): string
  /** Returns one line for each skipped or to-do test: file, test names, reason. */
  omissions(): readonly string[]
}

const NOISE = /^\s*(ok \d|\d+\.\.\d|TAP version|# time=|# \{|$)/

export function createFileReport (file: string): FileReport {
  const lines: string[] = []
  const omissions: string[] = []
  let path: readonly string[] = [file]
  return {
    add (line) {
      path = subtestPath(path, line)
      omissions.push(...omission(path, line))
      if (!NOISE.test(line)) lines.push(line)
    },
    failures: () => lines.join('\n'),
    omissions: () => omissions
  }
}

/** tap indents a subtest by four spaces and announces it: `    # Subtest: a name`. */
function subtestPath (path: readonly string[], line: string): readonly string[] {
  const [, indent = '', name] = /^((?: {4})*)# Subtest: (.*)$/.exec(line) ?? []
  return name === undefined ? path : [...path.slice(0, indent.length / 4 + 1), plainText(name)]
}

/**
 * Reads lines like `    ok 2 - a name # SKIP a reason` and `1..0 # a reason` (the whole file).
 * Tests that `--grep` filters out do not count. Some names repeat the reason.
 */
function omission (path: readonly string[], line: string): readonly string[] {
  const [, skipped] = /^1\.\.0 # (?:SKIP )?(.+)$/.exec(line) ?? []
  if (skipped !== undefined) return [`skipped: ${path[0]}: ${plainText(skipped)}`]
  const point = /^((?: {4})*)(?:not )?ok \d+ - (.*?) # (SKIP|TODO)(?: (.*))?$/.exec(line)
  if (point === null) return []
  const [, indent = '', name = '', directive, given = ''] = point
  if (/^filter(?: out)?: /.test(given)) return []
  const reason = plainText(given)
  const title = plainText(name).replace(` (skipped: ${reason})`, '')
  const names = [...path.slice(0, indent.length / 4 + 1), title].join(' > ')
  return [`${directive === 'SKIP' ? 'skipped' : 'to do'}: ${names}: ${reason || 'no reason given'}`]
}

/** In names and reasons tap writes `\#` for `#`, and two backslashes for one. */
function plainText (text: string): string {
  return text.replace(/\\([#\\])/g, '$1')
}
