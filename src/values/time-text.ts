/**
 * Reads the texts of dates and times (docs: "Date/Time Input Interpretation").
 */

/** What a text contains. */
export interface TimeText {
  /** Digits after the point of the second, without zeros at the end. */
  readonly digits: number
  /** Whether its time is 00:00:00, or it has none. */
  readonly isMidnight: boolean
  readonly hasZone: boolean
  readonly hasDay: boolean
}

/** `now`, `infinity`: a single word loses nothing, nor does a number too short for a time. */
const WORD = /^(?:[+-]?[a-z]*|\d{1,3})$/i

const MONTH = '(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|' +
  'sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![a-z])'
const IN_DATE = String.raw`(?:\d{1,7}|${MONTH})`

/** The parts of a text, in any order. A word without another meaning is a time zone. */
const PARTS = new RegExp([
  String.raw`(?<day>${IN_DATE}(?<mark>[-/.])${IN_DATE}\k<mark>\d+|j\d+)`,
  '(?<day>(?:today|tomorrow|yesterday|ad|bc)(?![a-z]))',
  `(?<month>${MONTH})`,
  '(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*|(?:am|pm|at|on)(?![a-z]))',
  String.raw`t?(?<clock>\d{1,2}:\d{1,2}(?::\d{1,2})?(?:\.\d*)?)`,
  String.raw`t(?<clock>\d{4}(?:\d\d(?:\.\d*)?)?)(?!\d)`,
  String.raw`(?<number>\d+(?:\.\d*)?)`,
  String.raw`(?<zone>[+-]\d{1,2}(?::?\d\d){0,2}|[a-z]+(?:[/_+-]\w+)*)`
].join('|'), 'gi')

const BETWEEN = /^[\s,]*$/

/** A time without colons. */
const SHORT_CLOCK = /^(?:\d{4}|\d{6}(?:\.\d*)?)$/

/** Reads a text of a date or a time, or of a time of day; undefined: it is not understood. */
export function readTime (text: string, isOfDay: boolean): TimeText | undefined {
  if (WORD.test(text.trim())) return { digits: 0, isMidnight: true, hasZone: false, hasDay: false }
  if (!BETWEEN.test(text.replaceAll(PARTS, ''))) return undefined
  const clocks: string[] = []
  const zones: string[] = []
  let [hasDay, numbers] = [false, 0]
  for (const { groups = {} } of text.matchAll(PARTS)) {
    const { day, month, clock, number, zone } = groups
    if (zone !== undefined) zones.push(zone)
    if (clock !== undefined) clocks.push(clock)
    if (number !== undefined) {
      // Six digits are a date, unless there is one.
      const isClock = SHORT_CLOCK.test(number) && (hasDay ? number.length > 4 : isOfDay)
      if (isClock) clocks.push(number)
      else if (/^\d{5,}$/.test(number)) hasDay = true
      else numbers += number.includes('.') ? NaN : 1
    }
    // With the name of a month, the day and the year are numbers.
    if (month !== undefined) numbers -= 2
    hasDay ||= (day ?? month) !== undefined
  }
  if (numbers !== 0 || clocks.length > 1 || zones.length > 1) return undefined
  const [clock = ''] = clocks
  return {
    digits: trimZeros(clock.split('.')[1] ?? '').length,
    // PostgreSQL adds twelve hours for PM, also to a day alone.
    isMidnight: !/[1-9]/.test(clock) && !AFTERNOON.test(text),
    hasZone: zones.length > 0,
    hasDay
  }
}

const AFTERNOON = /pm(?![a-z])/i

/** PostgreSQL stores this many digits of a second. */
export const MAX_PRECISION = 6

const TRAILING_ZEROS = /(?<!0)0+$/

/** The digits after the point without zeros at the end. */
function trimZeros (decimals: string): string {
  return decimals.replace(TRAILING_ZEROS, '')
}
