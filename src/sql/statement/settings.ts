/**
 * Names of the transaction settings in which operations leave data for later statements.
 */
import { randomUUID } from 'node:crypto'

const ANSWER = `oneflight.answer_${randomUUID().replaceAll('-', '')}`

/**
 * The setting that holds a shared result of operation `index`; `position` is its position among
 * those of the operation. The name has the index and not the id: setting names ignore case and
 * operation ids do not.
 */
export function sharedSetting (index: number, position: number): string {
  return `oneflight.r${index}_${position}`
}

/** The setting that holds the number of rows of operation `index`. */
export function countSetting (index: number): string {
  return `oneflight.c${index}`
}

/** The setting that lists which shared values of operation `index` are the JSON null. */
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
