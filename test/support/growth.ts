/** Measures how the processor time of a calculation grows with its input. */

/**
 * Returns how many times longer four times the input takes: about 4 if the time is linear, 16 if it
 * is quadratic. The shortest of several runs counts. Time of other processes does not.
 */
export function growthOf (size: number, prepare: (size: number) => () => unknown): number {
  const runs = [prepare(size), prepare(4 * size)] as const
  const times = Array.from({ length: 25 }, () => runs.map(measure) as [number, number])
  const [less, more] = [times.map(([less]) => less), times.map(([, more]) => more)]
  return Math.min(...more) / Math.min(...less)
}

function measure (run: () => unknown): number {
  const start = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(start)
  return user + system
}
