/**
 * Finds what a type would drop from the parts of a value that a client wrote as PostgreSQL's text:
 * `{1.50,2}`, `(1.50,EUR)`, `[1.50,2]`. A text of another form passes, for PostgreSQL to refuse.
 */
import {
  baseOf,
  type ArrayType,
  type CompositeType,
  type RangeType,
  type Type
} from '../catalogue/type.ts'
import { FITS, isLossless, type Fit } from './fits.ts'
import { issueOf, type WriteIssue } from './issue.ts'

/**
 * Longest text of a type whose parts can lose something, in characters. To look at each part of 1
 * MiB took 0.2 to 0.5 s, several times as long as JSON.
 */
export const MAX_TEXT = 65_536

/**
 * Returns the text to send, or what the type, or that of a part, would drop from it. The issue has
 * no path.
 */
export function fitText (text: string, type: Type): string | WriteIssue {
  const base = baseOf(type)
  if (dropsNothing(base)) return text
  if (base.kind === 'base') return (FITS[base.form] as Fit)(text, base)
  if (text.length > MAX_TEXT) return issueOf('parts', base)
  switch (base.kind) {
    case 'array':
      return fitArray(text, base)
    case 'composite':
      return fitComposite(text, base)
    default:
      return fitRange(text, base as RangeType)
  }
}

/** Whether no text of a type can lose a part. A composite may contain itself. */
function dropsNothing (type: Type): boolean {
  const base = baseOf(type)
  switch (base.kind) {
    case 'array':
      return dropsNothing(base.element)
    case 'range':
    case 'multirange':
      return dropsNothing(base.subtype)
    case 'base':
      // Only in JSON, 1.0 is an integer.
      return base.form === 'integer' || isLossless(base)
    default:
      return base.kind !== 'composite'
  }
}

/** An element in quotes, or without. */
const ELEMENTS =
  /"((?:[^"\\]|\\[\s\S])*)"?|(?:[^"{},;\s\\]|\\[\s\S])(?:[^"{},;\\]|\\[\s\S])*/g

function fitArray (text: string, { element }: ArrayType): string | WriteIssue {
  let lost: WriteIssue | undefined
  // `[0:1]={1,2}`
  const start = text.indexOf('{')
  const body = text.slice(start).replaceAll(ELEMENTS, (raw, quoted: string | undefined) => {
    if (NULL.test(raw)) return raw
    const part = (quoted ?? raw.trim()).replaceAll(ESCAPED, '$1')
    const fitting = fitText(part, element)
    if (fitting === part) return raw
    if (typeof fitting === 'string') return `"${fitting}"`
    lost ??= fitting
    return raw
  })
  return lost ?? text.slice(0, start) + body
}

const NULL = /^null\s*$/i
const ESCAPED = /\\([\s\S])/g

/** A field with the comma after it. */
const FIELDS = /(?:[^",\\]|\\[\s\S]|"(?:[^"\\]|\\[\s\S])*")*,/y

function fitComposite (text: string, { attributes }: CompositeType): string | WriteIssue {
  const inner = /^\s*\(([\s\S]*)\)\s*$/.exec(text)?.[1]
  if (inner === undefined) return text
  const fields = `${inner},`
  FIELDS.lastIndex = 0
  for (const attribute of attributes.values()) {
    const [raw] = FIELDS.exec(fields) ?? []
    if (raw === undefined) return text
    const fitting = fitText(readField(raw.slice(0, -1)), attribute)
    if (typeof fitting !== 'string') return fitting
  }
  return text
}

/** Reads a field or a bound, of which any part can be in quotes. */
function readField (raw: string): string {
  return raw.replaceAll(PARTS, (_, quoted: string | undefined, character: string) =>
    quoted === undefined
      ? character
      : quoted.replaceAll(ESCAPED_FIELD, (_, escaped: string | undefined) => escaped ?? '"'))
}

const PARTS = /"((?:[^"\\]|\\[\s\S]|"")*)"|\\([\s\S])/g
const ESCAPED_FIELD = /\\([\s\S])|""/g

/** A bound, of which any part can be in quotes. */
const BOUNDS = /(?:"(?:[^"\\]|\\[\s\S])*"?|\\[\s\S]|[^"\\[\](){},])+/g

function fitRange (text: string, { subtype }: RangeType): string | WriteIssue {
  for (const [raw] of text.matchAll(BOUNDS)) {
    const fitting = fitText(readField(raw), subtype)
    if (typeof fitting !== 'string') return fitting
  }
  return text
}
