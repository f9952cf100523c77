/**
 * Reads the texts of intervals as far as the fields and the precision of their type may drop a
 * part (docs: "Interval Input").
 */
import type { BaseType } from '../catalogue/type.ts'
import type { Lost } from './loss.ts'
import { MAX_PRECISION, trimZeros } from './time-text.ts'

/** The units of months, days and seconds: what they are called, and how many of them one is. */
type Part = 'months' | 'days' | 'seconds'
const UNITS: ReadonlyArray<readonly [names: string, part: Part, size: number]> = [
  ['y yr yrs year years', 'months', 12],
  ['mon mons month months', 'months', 1],
  ['w week weeks', 'days', 7],
  ['d day days', 'days', 1],
  ['h hr hrs hour hours', 'seconds', 3600],
  ['m min mins minute minutes', 'seconds', 60],
  ['s sec secs second seconds', 'seconds', 1]
]

const UNIT_OF_NAME = new Map(UNITS.flatMap(([names, part, size]) =>
  names.split(' ').map(name => [name, { part, size }] as const)))

/** For the last field of a type: the sizes of which it stores multiples. */
const STORED: Readonly<Record<string, Readonly<Record<Part, number>>>> = {
  year: { months: 12, days: Infinity, seconds: Infinity },
  month: { months: 1, days: Infinity, seconds: Infinity },
  day: { months: 1, days: 1, seconds: Infinity },
  hour: { months: 1, days: 1, seconds: 3600 },
  minute: { months: 1, days: 1, seconds: 60 }
}

const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/
const MINUTES = /^([+-]?)(\d+):(\d\d)$/

/** Digits after the point of a second: of a number alone, of `10:00:00.5` or of `1.5 seconds`. */
const FRACTIONS = [
  /^[+-]?\d*\.(\d+)$/,
  /:\d\d\.(\d+)/,
  /\.(\d+)\s*s(?:ec(?:ond)?s?)?\b/
]

/**
 * Returns the text that a type without fields reads as this type reads `text`, or what it would
 * drop. PostgreSQL reads a number without a unit, and two numbers with a colon, by the fields.
 */
export function fitInterval (
  text: string,
  { fields, precision = MAX_PRECISION }: Pick<BaseType, 'fields' | 'precision'>
): string | Lost {
  const plain = text.trim().toLowerCase()
  const unit = fields?.split(' ').at(-1)
  const stored = STORED[unit ?? '']
  if (stored === undefined) {
    const fraction = FRACTIONS.map(pattern => pattern.exec(plain)?.[1]).find(Boolean) ?? ''
    if (trimZeros(fraction).length > precision) return { loses: 'fraction' }
  }
  if (unit === undefined) return text
  if (NUMBER.test(plain)) return fitFields(`${plain} ${unit}`, stored)
  const minutes = fields === 'minute to second' ? MINUTES.exec(plain) : null
  if (minutes === null) return fitFields(text, stored)
  const [, sign, minute, second] = minutes
  return `${sign}00:${minute}:${second}`
}

function fitFields (
  text: string,
  stored: Readonly<Record<Part, number>> | undefined
): string | Lost {
  if (stored === undefined) return text
  const sums = readParts(text.trim().toLowerCase())
  if (sums === undefined) return text
  const parts = Object.keys(sums) as readonly Part[]
  return parts.some(part => sums[part] % stored[part] !== 0) ? { loses: 'fields' } : text
}

const CLOCK = /([+-]?)\b(\d+):(\d\d)(?::(\d\d(?:\.\d*)?))?/
const AMOUNT = /(?<![\d.])([+-]?\d+(?:\.\d+)?)\s*([a-z]+)/g
/** `1-2`: a year and two months. */
const YEARS = /^([+-]?)(\d+)-(\d+)$/
/** A number of days. */
const DAYS = /^[+-]?\d+$/
const IGNORED: ReadonlySet<string> = new Set(['', '@', 'ago'])
/** ISO 8601, in which M is a month before the T and a minute after it. */
const ISO = /^p([^t]*)(?:t(.*))?$/

/** Adds up the parts of an interval; undefined: its text is of another form. */
function readParts (text: string): Record<Part, number> | undefined {
  const sums: Record<Part, number> = { months: 0, days: 0, seconds: 0 }
  const unread = spellOut(text)
    .replace(CLOCK, (_, sign: string, hours: string, minutes: string, seconds = '0') => {
      const size = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)
      sums.seconds += Number(`${sign}1`) * size
      return ''
    })
    .replaceAll(AMOUNT, (all: string, amount: string, name: string) => {
      const unit = UNIT_OF_NAME.get(name)
      // A fraction of a day or of a month is divided among smaller units.
      if (unit === undefined || (unit.part !== 'seconds' && amount.includes('.'))) return all
      sums[unit.part] += Number(amount) * unit.size
      return ''
    })
  const isRead = unread.split(/\s+/).every(word => readWord(word, sums))
  sums.seconds = Math.round(sums.seconds * 1e6) / 1e6
  return isRead ? sums : undefined
}

/** Writes the units of ISO 8601 as those of other texts. */
function spellOut (text: string): string {
  const [all, date = '', time = ''] = ISO.exec(text) ?? []
  return all === undefined ? text : `${date.replace('m', 'mon')} ${time}`
}

/** Adds a word without a unit; false: it is unknown. */
function readWord (word: string, sums: Record<Part, number>): boolean {
  const [, sign, years, months] = YEARS.exec(word) ?? []
  if (years !== undefined) {
    sums.months += Number(`${sign}1`) * (Number(years) * 12 + Number(months))
    return true
  }
  if (!DAYS.test(word)) return IGNORED.has(word)
  sums.days += Number(word)
  return true
}
