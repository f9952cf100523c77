/**
 * What the tables of parts are made of.
 */
import type { Frame, Members } from './draft.ts'

/** A repeated part of the grammar of a batch. */
export interface Part {
  readonly name: string
  /** The operations that can have it; the first one is used if it is alone. */
  readonly frames: readonly Frame[]
  /** Largest `n` that the service accepts in one operation; the body may end before. */
  readonly max: number
  /** Makes the members of an operation that have `n` of it, or a text of this length. */
  readonly make: (n: number) => Members
}

/** Where an element can be. */
export interface Place {
  readonly frames: readonly Frame[]
  readonly make: (element: string) => Members
}

export function inFilter (write: (element: string) => string): Place {
  return { frames: filtering, make: element => ({ where: [write(element)] }) }
}

/** A place in one member of these operations. */
export function inMember (
  frames: readonly Frame[],
  member: string,
  write: (element: string) => string
): Place {
  return { frames, make: element => ({ [member]: [write(element)] }) }
}

/** The element of a number. */
export type Element = (i: number) => string

/** Texts of `make` for the numbers from 0. */
export function times (n: number, make: Element): readonly string[] {
  return Array.from({ length: n }, (_, i) => make(i))
}

/** The operations with `where`. */
export const filtering: readonly Frame[] = ['select', 'update', 'delete', 'count', 'call', 'nested']
export const writing: readonly Frame[] = ['update', 'update_from']

export const MAX_ROWS = 10_000
export const UNLIMITED = 2 ** 20

/** A name that is different for each number, and almost the same. */
export const column: Element = i => `c${i}`
export const longColumn: Element = i => `${'c'.repeat(63 - String(i).length)}${i}`
export const reference: Element = i => `"$p.${i}.a"`

export function path (i: number, steps: number): string {
  return `j${`->k${i % 10}`.repeat(steps)}`
}

/** The elements of a list in turns. */
export function cycle (list: readonly string[], i: number): string {
  return list[i % list.length] as string
}
