/**
 * A word of the batch language as a small piece of work: its parameters, its operations, and how
 * its responses and its changes are checked.
 */

/** The values of the parameters, or in the file of a named batch the references to them. */
export type Params = Readonly<Record<string, any>>

/** Returns a number from 0 up to, but not including, 1. */
export type Random = () => number

/** What a batch adds: rows by table, the prices of its entries, the changes of its boxes. */
export type Added = Partial<
  Readonly<Record<'boxes' | 'changes' | 'entries' | 'prices' | 'parcels', number>>
>

export interface Word {
  /** Its name in the table. */
  readonly title: string
  /** The JSON Schema of each parameter, for the named batch and for the endpoint. */
  readonly params: Readonly<Record<string, object>>
  /** Returns values for a caller. */
  readonly make: (caller: number, random: Random) => Params
  readonly operations: (params: Params) => readonly object[]
  /** The operations of the named batch, if it has to write them in another way. */
  readonly named?: (params: Params) => readonly object[]
  /** The columns of the last rows that must be the same for all contenders. */
  readonly compared: readonly string[]
  /** How often every response must contain a text. */
  readonly proof?: readonly [text: string, times: number]
  readonly adds?: Added
}

/** Each caller owns every hundredth box, from its place among the tokens up. */
export const CALLERS = 100
/** The boxes on a shelf. All belong to the same caller. */
export const BOXES_PER_SHELF = 10
const SHELVES_PER_CALLER = 10

export const integer = { type: 'integer' } as const
export const text = { type: 'string', maxLength: 100 } as const
export const decimal = { type: 'number' } as const

export function strictObject<T extends Readonly<Record<string, object>>> (properties: T) {
  return {
    type: 'object',
    required: Object.keys(properties),
    additionalProperties: false,
    properties
  } as const
}

export function rowsOf (properties: Readonly<Record<string, object>>): object {
  return { type: 'array', maxItems: 1000, items: strictObject(properties) }
}

/** Returns a whole number from 0 up to, but not including, `end`. */
export function pick (end: number, random: Random): number {
  return Math.floor(random() * end)
}

/** The number of a shelf of the caller. */
export function pickShelf (caller: number, random: Random): number {
  return caller + CALLERS * pick(SHELVES_PER_CALLER, random)
}

/** The boxes of a shelf, as in reset_tables() of bench/schema.sql. */
export function boxesOf (shelf: number): readonly number[] {
  const caller = shelf % CALLERS
  const first = caller + BOXES_PER_SHELF * (shelf - caller)
  return Array.from({ length: BOXES_PER_SHELF }, (_, i) => first + CALLERS * i)
}

/** A box of the caller and its shelf. */
export function pickBox (
  caller: number,
  random: Random
): { readonly box: number, readonly shelf: number } {
  const shelf = pickShelf(caller, random)
  return { shelf, box: boxesOf(shelf)[pick(BOXES_PER_SHELF, random)] as number }
}
