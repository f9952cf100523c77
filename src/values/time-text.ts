/**
 * Reads the texts of dates and times (docs: "Date/Time Input Interpretation").
 */

/** What the text of a time contains. */
export interface TimeText {
  /** Digits after the point of the second, without zeros at the end. */
  readonly digits: number
  /** Whether its time is 00:00:00, or it has none. */
  readonly isMidnight: boolean
  readonly hasZone: boolean
  readonly hasDay: boolean
}

/** A date with an offset and no time. */
const ZONED_DATE = /^\d{4,6}-\d{1,2}-\d{1,2}\s*(?:z|[+-]\d{1,2}(?::?\d\d)?)$/i

const NO_TIME: TimeText = { digits: 0, isMidnight: true, hasZone: true, hasDay: true }

/** `10:00` or `10:00:00.5`. */
const TIME = /(?:\b|t)(\d{1,2}):(\d\d)(?::(\d\d))?(?:\.(\d+))?/i

/** The same without colons, after a T: `T1000`, `T100000.5`. */
const SHORT_TIME = /(?<![a-z])t(\d\d)(\d\d)(\d\d)?(?:\.(\d+))?/i

/** An offset, directly after the time or its half of the day. */
const OFFSET = /^\s*(?:[ap]m\s*)?[+-]\d/i

const WORD = /[a-z]+/gi

/** Words after a time that are no time zone (datetktbl of datetime.c). */
const NO_ZONES = new RegExp(
  `^(?:${[
    'ad', 'am', 'at', 'bc', 'on', 'pm', 'jan(?:uary)?', 'feb(?:ruary)?', 'mar(?:ch)?',
    'apr(?:il)?', 'may', 'june?', 'july?', 'aug(?:ust)?', 'sept?(?:ember)?', 'oct(?:ober)?',
    'nov(?:ember)?', 'dec(?:ember)?', '(?:sun|mon|fri)(?:day)?', 'tue(?:s(?:day)?)?',
    'wed(?:s|nesday)?', 'thu(?:r|rs|rsday)?', 'sat(?:urday)?', 'today', 'tomorrow', 'yesterday'
  ].join('|')})$`, 'i'
)

/** Reads a text with a time, or a date with an offset; undefined: it loses nothing. */
export function readTime (text: string): TimeText | undefined {
  const trimmed = text.trim()
  if (ZONED_DATE.test(trimmed)) return NO_TIME
  const found = TIME.exec(trimmed) ?? SHORT_TIME.exec(trimmed)
  if (found === null) return undefined
  const [all, hours, minutes, seconds = '', decimals = ''] = found
  const fraction = trimZeros(decimals)
  const before = trimmed.slice(0, found.index)
  const after = trimmed.slice(found.index + all.length)
  return {
    digits: fraction.length,
    isMidnight: [hours, minutes, seconds, fraction].every(part => Number(part) === 0),
    hasZone: OFFSET.test(after) || words(after).some(word => !NO_ZONES.test(word)),
    hasDay: /\d/.test(before)
  }
}

function words (text: string): readonly string[] {
  return text.match(WORD) ?? []
}

/** PostgreSQL stores this many digits of a second. */
export const MAX_PRECISION = 6

const TRAILING_ZEROS = /(?<!0)0+$/

/** The digits after the point without zeros at the end. */
export function trimZeros (decimals: string): string {
  return decimals.replace(TRAILING_ZEROS, '')
}
