/**
 * Names of the transaction settings in which operations leave data for later statements.
 */
import { randomUUID } from 'node:crypto'

const ANSWER = `oneflight.answer_${randomUUID().replaceAll('-', '')}`

/**
 * The setting that holds the published rows of operation `index`. It uses the index and not the id:
 * setting names ignore case and operation ids do not.
 */
export function rowsSetting (index: number): string {
  return `oneflight.r${index}`
}

/**
 * The setting that holds one published value of operation `index` in the plain form; `position` is
 * its position among the published values of that operation.
 */
export function valueSetting (index: number, position: number): string {
  return `oneflight.v${index}_${position}`
}

/** The setting that holds the number of rows of operation `index`. */
export function countSetting (index: number): string {
  return `oneflight.c${index}`
}

/** The setting that lists which published values of operation `index` are the JSON null. */
export function jsonNullsSetting (index: number | ''): string {
  return `oneflight.n${index}`
}

/**
 * The setting that holds the result of operation `index` until it is stored with the idempotency
 * key of its batch. Its name cannot be guessed.
 */
export function answerSetting (index: number): string {
  return `${ANSWER}_${index}`
}
