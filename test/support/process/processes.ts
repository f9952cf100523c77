/**
 * The processes of this machine.
 */
import { execFileSync } from 'node:child_process'

export function isAlive (pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

export interface Process {
  readonly pid: number
  readonly parent: number
  /** The program and its arguments. */
  readonly command: string
}

export function readProcesses (): readonly Process[] {
  return execFileSync('ps', ['-A', '-o', 'pid=,ppid=,args='], { encoding: 'utf8' })
    .split('\n')
    .map(line => /^ *(\d+) +(\d+) (.*)/.exec(line) ?? [])
    .map(([, pid, parent, command = '']) => ({ pid: Number(pid), parent: Number(parent), command }))
}

/** The ids of a process and of its children. */
export function familyOf (pid: number): readonly number[] {
  return [pid, ...readProcesses().filter(({ parent }) => parent === pid).map(({ pid }) => pid)]
}
