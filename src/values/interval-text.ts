/**
 * Reads the texts of intervals as far as their type may drop a part (docs: "Interval Input").
 */
import type { BaseType } from '../catalogue/type.ts'
import { issueOf, type WriteIssue } from './issue.ts'
import { MAX_PRECISION } from './time-text.ts'

/** What PostgreSQL stores of an interval. `rest`: 1 if a part of a microsecond is left. */
type Part = 'months' | 'days' | 'microseconds' | 'rest'
type Sums = Record<Part, bigint>

/** The units: their names, the part in which one is stored, and how many of that part it is. */
const UNITS: ReadonlyArray<readonly [names: string, part: Part, size: bigint]> = [
  ['y yr yrs year years', 'months', 12n],
  ['mon mons month months', 'months', 1n],
  ['w week weeks', 'days', 7n],
  ['d day days', 'days', 1n],
  ['h hr hrs hour hours', 'microseconds', 3_600_000_000n],
  ['m min mins minute minutes', 'microseconds', 60_000_000n],
  ['s sec secs second seconds', 'microseconds', 1_000_000n],
  ['ms msec msecs millisecond milliseconds', 'microseconds', 1000n],
  ['us usec usecs microsecond microseconds', 'microseconds', 1n]
]

const UNIT_OF_NAME = new Map(UNITS.flatMap(([names, part, size]) =>
  names.split(' ').map(name => [name, { part, size }] as const)))

/** For the last field of a type: the sizes of which it stores multiples; 0: nothing. */
const STORED: Readonly<Record<string, Omit<Sums, 'rest'>>> = {
  year: { months: 12n, days: 0n, microseconds: 0n },
  month: { months: 1n, days: 0n, microseconds: 0n },
  day: { months: 1n, days: 1n, microseconds: 0n },
  hour: { months: 1n, days: 1n, microseconds: 3_600_000_000n },
  minute: { months: 1n, days: 1n, microseconds: 60_000_000n }
}

const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/
const MINUTES = /(?<!\S)([+-]?)(\d+):(\d\d)(?!\S)/

/** What can be less than a microsecond, in a form that is not read. */
const FRACTION = /\.|e[+-]?\d/

/** PostgreSQL refuses longer texts. */
const MAX_LENGTH = 255

/**
 * Returns a text that means the same without the fields of the type, or what the type would drop.
 * PostgreSQL reads a number without a unit, and two numbers with a colon, by the fields.
 */
export function fitInterval (text: string, type: BaseType): string | WriteIssue {
  const { fields, precision = MAX_PRECISION } = type
  const plain = text.trim().toLowerCase()
  // `infinity`
  if (!/\d/.test(plain)) return text
  const unit = fields?.split(' ').at(-1)
  const written = addUnit(plain, fields, unit ?? 'second')
  const stored = STORED[unit ?? '']
  const sums = plain.length > MAX_LENGTH ? undefined : readParts(written)
  if (sums === undefined) {
    const isKept = stored === undefined && precision === MAX_PRECISION && !FRACTION.test(plain)
    return isKept ? text : issueOf('form', type)
  }
  const sizes = {
    ...stored ?? { months: 1n, days: 1n, microseconds: 10n ** BigInt(MAX_PRECISION - precision) },
    rest: 0n
  }
  const drops = (part: Part): boolean =>
    sums[part] !== 0n && (sizes[part] === 0n || sums[part] % sizes[part] !== 0n)
  if ((Object.keys(sums) as readonly Part[]).some(drops)) {
    return issueOf(stored === undefined ? 'fraction' : 'fields', type)
  }
  return unit === undefined || written === plain ? text : written
}

function addUnit (plain: string, fields: string | undefined, unit: string): string {
  if (NUMBER.test(plain)) return `${plain} ${unit}`
  return fields === 'minute to second' ? plain.replace(MINUTES, '$100:$2:$3') : plain
}

/** A number before a time is one of days. */
const CLOCK =
  /(?:(?<![\d.+-])([+-]?\d+)\s+)?([+-]?)\b(\d+):(\d{1,2})(?::(\d{1,2}(?:\.\d*)?))?(?![\d:.])/
const AMOUNT = /(?<![\d.])([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([a-z]+)/g
/** `1-2`: a year and two months. */
const YEARS = /(?<!\S)([+-]?)(\d+)-(\d+)(?!\S)/
const IGNORED = /^(?:@|ago|\s)*$/
/** ISO 8601, in which M is a month before the T and a minute after it. */
const ISO = /^p((?:[+-]?[\d.]+[ymwd])*)(?:t((?:[+-]?[\d.]+[hms])*))?$/
const ISO_TIME = /^p(\d+-\d+)-(\d+)(?:t([\d:.]+))?$/

/** Adds up the parts of an interval; undefined: its text is of another form. */
function readParts (text: string): Sums | undefined {
  const sums: Sums = { months: 0n, days: 0n, microseconds: 0n, rest: 0n }
  const read = (amount: string, name: string): string => add(sums, amount, name) ? '' : amount
  const unread = spellOut(text)
    .replace(CLOCK, (_, days = '0', sign: string, hours: string, minutes: string, seconds = '0') =>
      read(days, 'd') + read(sign + hours, 'h') + read(sign + minutes, 'm') +
        read(sign + seconds, 's'))
    .replaceAll(AMOUNT, (_, amount: string, name: string) => read(amount, name))
    .replace(YEARS, (_, sign: string, years: string, months: string) =>
      read(sign + years, 'y') + read(sign + months, 'mon'))
  return IGNORED.test(unread) ? sums : undefined
}

/** Writes the units of ISO 8601 as those of other texts. */
function spellOut (text: string): string {
  const [all, date = '', time = ''] = ISO.exec(text) ?? []
  return all === undefined
    ? text.replace(ISO_TIME, (_, years: string, days: string, time = '') =>
      `${years} ${days}d ${time}`)
    : `${date.replace('m', 'mon')} ${time}`
}

/** What a part that is not whole is divided into. */
const SMALLER = [['months', 30n], ['days', 86_400_000_000n], ['microseconds', 1n]] as const

/** Adds an amount of a unit; false: the unit is unknown, or the months are rounded. */
function add (sums: Sums, amount: string, name: string): boolean {
  const unit = UNIT_OF_NAME.get(name)
  if (unit === undefined) return false
  const [whole, decimals = ''] = amount.split('.')
  const scale = 10n ** BigInt(decimals.length)
  let left = BigInt(`${whole}${decimals}`) * unit.size
  if (unit.size === 12n && left % scale !== 0n) return false
  for (const [part, size] of SMALLER.slice(SMALLER.findIndex(([part]) => part === unit.part))) {
    sums[part] += left / scale
    left = left % scale * size
  }
  if (left !== 0n) sums.rest = 1n
  return true
}
