/**
 * Processor time and memory of other processes, from Linux's /proc.
 *
 * In charge of: reading them. Refuses to: guess where there is no /proc, or where PostgreSQL runs
 * on another machine: undefined is "not measured".
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

/** What the kernel counts in: USER_HZ is 100 on every platform that Node runs on. */
const MS_PER_TICK = 10
const KIB = 1024

interface Stat {
  readonly pid: number
  readonly parent: number
  readonly name: string
  readonly own: number
  readonly ofChildren: number
}

/** Processor time (ms) of this process, user and system. */
export function cpuOf (pid: number): number | undefined {
  return stat(pid)?.own
}

/**
 * Processor time (ms) of a whole PostgreSQL server: its processes, and those of its processes that
 * have ended.
 */
export function cpuOfServer (postmaster: number | undefined): number | undefined {
  const root = postmaster === undefined ? undefined : stat(postmaster)
  if (root === undefined) return undefined
  const children = readdirSync('/proc').filter(name => /^\d+$/.test(name)).flatMap(name =>
    stat(Number(name)) ?? []
  ).filter(({ parent }) => parent === postmaster)
  return root.own + root.ofChildren + children.reduce((sum, { own }) => sum + own, 0)
}

/** The postmaster that this backend is a child of; undefined where the backend runs elsewhere. */
export function postmasterOf (backend: number): number | undefined {
  const found = stat(backend)
  return found?.name.startsWith('postgres') === true &&
      stat(found.parent)?.name.startsWith('postgres') === true
    ? found.parent
    : undefined
}

/** Resident memory (bytes) of a process now, and the most since `forgetPeak`. */
export function memoryOf (
  pid: number
): { readonly now: number, readonly peak: number } | undefined {
  const text = read(`/proc/${pid}/status`)
  const [, now] = /^VmRSS:\s+(\d+) kB/m.exec(text) ?? []
  const [, peak] = /^VmHWM:\s+(\d+) kB/m.exec(text) ?? []
  return now === undefined || peak === undefined
    ? undefined
    : { now: Number(now) * KIB, peak: Number(peak) * KIB }
}

/** From here on the peak is counted anew (Linux, proc(5), clear_refs). */
export function forgetPeak (pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

function stat (pid: number): Stat | undefined {
  const text = read(`/proc/${pid}/stat`)
  // The name stands in brackets and may hold anything.
  const [, name, rest] = /^\d+ \((.*)\) (.*)$/s.exec(text) ?? []
  if (name === undefined || rest === undefined) return undefined
  const fields = rest.split(' ').map(Number)
  const ticks = (...at: readonly number[]): number =>
    at.reduce((sum, i) => sum + (fields[i] ?? 0), 0) * MS_PER_TICK
  return { pid, name, parent: fields[1] ?? 0, own: ticks(11, 12), ofChildren: ticks(13, 14) }
}

/** The text of the file, or '' where there is none (any more). */
function read (file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
