/**
 * Bodies of batches that have as much of one or more parts of the grammar as the limits allow.
 */
import { writeOperation, type Frame, type Members } from './draft.ts'
import type { Part } from './part.ts'

/** The default limits of the service. */
const MAX_BODY_BYTES = 1_048_576
const MAX_OPS = 100

/** Operations to which parts refer; `p` and `q` come before the others, `z` after them. */
const named = (id: string): string => writeOperation(id, 'select', [{ limit: ['10'] }])
const OTHERS = 3

export interface Recipe {
  readonly parts: readonly Part[]
  /** How many operations share the body. */
  readonly operations: number
}

export function nameOf ({ parts, operations }: Recipe): string {
  return `${parts.map(({ name }) => name).join(' + ')}${operations === 1 ? '' : ` × ${operations}`}`
}

/** All operations whose frames the parts have in common, or one for each part. */
function chooseFrames (parts: readonly Part[]): ReadonlyArray<readonly [Frame, readonly Part[]]> {
  const [first, ...others] = parts as readonly [Part, ...Part[]]
  const common = first.frames.find(frame => others.every(({ frames }) => frames.includes(frame)))
  return common === undefined
    ? parts.map(part => [part.frames[0] as Frame, [part]])
    : [[common, parts]]
}

/** Writes a body. `scale` is from 0 to 1: the share of the largest number of each part. */
export function writeBody (recipe: Recipe, scale = 1, bytes = MAX_BODY_BYTES): string {
  const { parts } = recipe
  const chosen = chooseFrames(parts)
  // Some parts have many bytes at least, so fewer operations fit.
  const smallest = chosen.map(([frame, members]) =>
    Buffer.byteLength(writeOperation('o', frame, members.map(part => part.make(1)))))
  const operations = Math.min(
    recipe.operations,
    Math.floor((MAX_OPS - OTHERS) / chosen.length),
    Math.max(1, Math.floor(bytes / 2 / Math.max(...smallest) / chosen.length))
  )
  const share = (bytes - 500) / operations / parts.length - 100
  const counts = new Map(
    parts.map(part => [part, Math.max(1, Math.floor(count(part, share) * scale))])
  )
  const written: string[] = [named('p'), named('q')]
  for (let i = 0; i < operations; i++) {
    for (const [k, [frame, members]] of chosen.entries()) {
      // The parts of one operation share its limits.
      const made = members.map((part): Members =>
        part.make(Math.ceil((counts.get(part) as number) / limitShare(members, part))))
      written.push(writeOperation(`o${i}_${k}`, frame, made))
    }
  }
  return `[${written.join()},${named('z')}]`
}

/** The number of parts of an operation that share a limit with this one. */
function limitShare (parts: readonly Part[], { max }: Part): number {
  return parts.filter(part => part.max === max && max < MAX_BODY_BYTES).length || 1
}

/** The largest number of a part that is allowed and fits into this number of bytes. */
function count (part: Part, bytes: number): number {
  const frame = part.frames[0] as Frame
  const length = (n: number): number =>
    Buffer.byteLength(writeOperation('o', frame, [part.make(n)]))
  let n = Math.min(64, part.max)
  for (let i = 0; i < 20; i++) {
    const size = length(n)
    const grown = Math.floor(n * Math.min(bytes / Math.max(1, size), 64))
    const next = Math.max(1, Math.min(part.max, grown))
    if (next === n || (size <= bytes && size > 0.97 * bytes)) break
    n = next
  }
  return n
}
