/**
 * Reads the processor time and the memory of other processes from Linux's /proc. Without /proc, or
 * if PostgreSQL runs on another machine, the result is undefined ("not measured").
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

/** USER_HZ is 100 on every platform that Node supports. */
const MS_PER_TICK = 10
const KIB = 1024

interface Stat {
  readonly pid: number
  readonly parent: number
  readonly name: string
  readonly own: number
  readonly ofChildren: number
}

/** Returns the processor time (ms) of a process, user and system. */
export function cpuOf (pid: number): number | undefined {
  return stat(pid)?.own
}

/**
 * Returns the processor time (ms) of all PostgreSQL processes, including those that have ended.
 * Each has one thread, whose time the scheduler knows exactly. Ticks of ten backends may be 10 % of
 * a slice in which the contender mostly waits.
 */
export function cpuOfServer (postmaster: number | undefined): number | undefined {
  const root = postmaster === undefined ? undefined : stat(postmaster)
  if (root === undefined) return undefined
  const children = readdirSync('/proc').filter(name => /^\d+$/.test(name))
    .flatMap(name => stat(Number(name)) ?? [])
    .filter(({ parent }) => parent === postmaster)
  return root.ofChildren +
    [root, ...children].reduce((sum, { pid, own }) => sum + (exactCpuOf(pid) ?? own), 0)
}

/** Returns the postmaster of a backend, or undefined if it runs on another machine. */
export function postmasterOf (backend: number): number | undefined {
  const found = stat(backend)
  return found?.name.startsWith('postgres') === true &&
      stat(found.parent)?.name.startsWith('postgres') === true
    ? found.parent
    : undefined
}

/** Returns the resident memory (bytes) of a process, and its peak since `forgetPeak`. */
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

/** Resets the peak (Linux, proc(5), clear_refs). */
export function forgetPeak (pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

/** The processor time (ms) of the main thread. Undefined if the kernel does not count it. */
function exactCpuOf (pid: number): number | undefined {
  const [, nanoseconds] = /^(\d+) /.exec(read(`/proc/${pid}/schedstat`)) ?? []
  return nanoseconds === undefined ? undefined : Number(nanoseconds) / 1e6
}

function stat (pid: number): Stat | undefined {
  const text = read(`/proc/${pid}/stat`)
  // The name is in parentheses and may contain any character.
  const [, name, rest] = /^\d+ \((.*)\) (.*)$/s.exec(text) ?? []
  if (name === undefined || rest === undefined) return undefined
  const fields = rest.split(' ').map(Number)
  const ticks = (...at: readonly number[]): number =>
    at.reduce((sum, i) => sum + (fields[i] ?? 0), 0) * MS_PER_TICK
  return { pid, name, parent: fields[1] ?? 0, own: ticks(11, 12), ofChildren: ticks(13, 14) }
}

/** Returns the text of a file, or '' if it does not exist. */
function read (file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
