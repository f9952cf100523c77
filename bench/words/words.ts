/**
 * All words, by name: the work that the table "Every word" compares. The statements by hand are in
 * bench/peers/words.ts, the tables in bench/schema.sql.
 */
import { changes } from './changes.ts'
import { reads } from './reads.ts'
import { strictObject, type Word } from './word.ts'

export type WordName = keyof typeof reads | keyof typeof changes

const { read, ...otherReads } = reads

/** In the order of the table. */
export const words: Readonly<Record<WordName, Word>> = { read, ...changes, ...otherReads }

/** Applies a function to every word. */
export function mapWords<T> (map: (word: Word) => T): Readonly<Record<WordName, T>> {
  return Object.fromEntries(
    Object.entries(words).map(([name, word]) => [name, map(word)])
  ) as Record<WordName, T>
}

/** The JSON Schema of the values of a word. */
export const schemaOf = ({ params }: Word) => strictObject(params)

/** The file of the named batch of a word. */
export function namedBatchOf (word: Word): object {
  const references = Object.fromEntries(
    Object.keys(word.params).map(name => [name, `$params.${name}`])
  )
  return {
    description: word.title,
    params: schemaOf(word),
    operations: (word.named ?? word.operations)(references)
  }
}

/** The part of the last rows that must be the same for all contenders, in any order. */
export function gistOfRows ({ compared }: Word, rows: readonly unknown[]): readonly unknown[] {
  return rows.map(row =>
    JSON.stringify(compared.map(column => plain((row as Record<string, unknown>)[column])))
  ).sort()
}

/** Returns a value with its decimals as numbers, which postgres.js reads as strings. */
function plain (value: unknown): unknown {
  if (typeof value === 'string') return /^-?\d+(?:\.\d+)?$/.test(value) ? Number(value) : value
  if (Array.isArray(value)) return value.map(plain)
  return typeof value !== 'object' || value === null
    ? value
    : Object.fromEntries(
      Object.entries(value).sort().map(([name, member]) => [name, plain(member)])
    )
}

/** The rows of the last operation that has some. */
export function lastRows (data: Readonly<Record<string, unknown>>): readonly unknown[] {
  return Object.values(data).flatMap(rows => Array.isArray(rows) && rows.length > 0 ? [rows] : [])
    .at(-1) ?? []
}

/** Whether a response contains the proof of its word as often as it should. */
export function hasProof ({ proof }: Word, body: string): boolean {
  return proof === undefined || body.split(proof[0]).length > proof[1]
}

/** What `traceQuery` counts when a batch adds this. */
export const tracesOf = ({ adds = {} }: Word): Readonly<Record<string, number>> =>
  ({ boxes: 0, changes: 0, entries: 0, prices: 0, parcels: 0, ...adds })

export const traceQuery = `select (select count(*) from boxes) as boxes,
  (select sum(changes) from boxes) as changes, (select count(*) from entries) as entries,
  (select coalesce(sum(price), 0) from entries) as prices,
  (select count(*) from parcels where tags = '{gift,express}' and colour = 'green'
    and data ->> 'note' = 'ring twice' and filled = 0.25) as parcels`
