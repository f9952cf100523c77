/**
 * Values of the request: a scalar → a literal or reference, any JSON → one JSON text cut at its references. Numbers keep their source text;
 * types of columns are PostgreSQL's business.
 */
import { randomUUID } from 'node:crypto'
import { isObject, writeJson, type Json, type JsonObject } from '../json/parse.ts'
import type { Findings, JsonDocument, Literal, Path, Reference } from './nodes.ts'

// Stands for reference number n while JSON.stringify writes the document; not guessable, so no data can look like one.
const placeholder = `reference-${randomUUID()}-`
const placeholders = new RegExp(`"${placeholder}\\d+"`)

/** The one member of an object that is no data, for it begins with `$` and is alone: `{"$col": "a"}`. Undefined for data. */
export function specialMember (value: Json): readonly [key: string, operand: Json] | undefined {
  if (!isObject(value)) return undefined
  const [member, ...more] = Object.entries(value as JsonObject)
  return member?.[0].startsWith('$') === true && more.length === 0 ? member : undefined
}

/** A string, number or boolean. */
export function planScalar (value: Json, path: Path, findings: Findings): Literal | Reference {
  const meaning = typeof value === 'string' ? findings.string(value, path) : undefined
  if (typeof meaning === 'object') return meaning
  const json = JSON.stringify(meaning ?? value)
  return { kind: 'literal', text: meaning ?? json, json }
}

/** `value` as it stands at `path`. `rows`: how many rows a list in it must have at least. */
export function planDocument (value: Json, path: Path, findings: Findings, rows = 0): JsonDocument {
  return cutDocument(value, references => replaceStrings(value, path, { findings, rows, references }))
}

/** An object of members that stand at paths of their own. */
export function planObject (members: ReadonlyArray<{ readonly key: string, readonly value: Json, readonly path: Path }>, findings: Findings): JsonDocument {
  return cutDocument(Object.fromEntries(members.map(({ key, value }) => [key, value])), references =>
    Object.fromEntries(members.map(({ key, value, path }) => [key, replaceStrings(value, path, { findings, rows: 0, references })])))
}

/** Rows of `values`; `positions` are their places there. */
export function planRows (rows: readonly Json[], positions: readonly number[], findings: Findings): JsonDocument {
  return cutDocument(rows, references => rows.map((row, i) => replaceStrings(row, ['values', positions[i] as number], { findings, rows: 0, references })))
}

/** The JSON array of references alone. */
export function referenceDocument (references: readonly Reference[]): JsonDocument {
  return { kind: 'document', pieces: ['[', ...references.slice(1).map(() => ','), ']'], references }
}

/** `replace` is asked only when there may be a reference. */
function cutDocument (value: Json, replace: (references: Reference[]) => Json): JsonDocument {
  const text = writeJson(value)
  if (!text.includes('"$')) return { kind: 'document', pieces: [text], references: [] }
  const references: Reference[] = []
  const cut = JSON.stringify(replace(references))
  return { kind: 'document', pieces: cut.split(placeholders), references }
}

interface Cut { readonly findings: Findings, readonly rows: number, readonly references: Reference[] }

/** A copy of `value` with placeholders for references and `$$` unescaped. */
function replaceStrings (value: Json, path: Path, cut: Cut): Json {
  if (typeof value === 'string') {
    const meaning = cut.findings.string(value, path, cut.rows)
    return typeof meaning === 'string' ? meaning : `${placeholder}${cut.references.push(meaning) - 1}`
  }
  if (Array.isArray(value)) return value.map((item: Json, i) => replaceStrings(item, [...path, i], cut))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, replaceStrings(item, [...path, key], cut)]))
}
