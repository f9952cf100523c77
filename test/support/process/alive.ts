/**
 * Whether a process with this id exists.
 */
export function isAlive (pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
