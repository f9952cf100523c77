/**
 * What a type drops from a value without an error.
 */

/**
 * What is lost:
 * - `digits`: digits after the point, or with a negative scale before it
 * - `characters`, `bytes`: the end of a text
 * - `fraction`: digits of a second
 * - `zone`: an offset or a time zone
 * - `day`: the date of a time
 * - `clock`: the time of a date
 * - `fields`: what is smaller than the last field of an interval
 * - `form`: a part may be lost of a text that is not understood
 * - `parts`: a part may be lost of a text that is too long to look at each of them
 */
export type Loss =
  | 'digits'
  | 'characters'
  | 'bytes'
  | 'fraction'
  | 'zone'
  | 'day'
  | 'clock'
  | 'fields'
  | 'form'
  | 'parts'

export interface Lost {
  readonly loses: Loss
}
