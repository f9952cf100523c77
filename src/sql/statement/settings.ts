/**
 * Names of the transaction settings in which operations leave data for later statements, and the
 * settings on which the text form of values depends.
 */
import { randomUUID } from 'node:crypto'
import { AND, constant, fixed, join, sql, type Fragment } from '../../fragment/fragment.ts'
import { FORMATS } from '../../postgres/facts.ts'

const ANSWER = `oneflight.answer_${randomUUID().replaceAll('-', '')}`

/**
 * The setting that holds a shared result of operation `index`; `name` tells it from others of the
 * operation. The setting has the index and not the id: setting names ignore case and operation ids
 * do not.
 */
export function sharedSetting (index: number, name: string): string {
  return `oneflight.r${index}_${name}`
}

/** The setting that holds the number of rows of operation `index`. */
export function countSetting (index: number): string {
  return `oneflight.c${index}`
}

/**
 * The setting that holds the result of operation `index` until it is stored with the idempotency
 * key of its batch. Its name cannot be guessed.
 */
export function answerSetting (index: number): string {
  return `${ANSWER}_${index}`
}

/** The transaction setting that holds the search_path of the batch. */
export const SEARCH_PATH = 'oneflight.search_path'

/** The names of the settings that `formatsChanged` compares, in its order. */
export const FORMAT_NAMES: readonly string[] = [...FORMATS.map(([name]) => name), 'search_path']

/** Conditions that the formats are those of the batch. RESET ALL can remove SEARCH_PATH. */
const areSet: readonly Fragment[] = [
  ...FORMATS.map(([name, value]) =>
    sql`pg_catalog.current_setting(${constant(name)}) operator(pg_catalog.=) ${constant(value)}`
  ),
  sql`(pg_catalog.current_setting('search_path') operator(pg_catalog.=)
    pg_catalog.current_setting(${constant(SEARCH_PATH)}, true)) is true`
]

/**
 * A condition: values have another text form than that of the batch, or names in them another
 * meaning, because code of the database has changed a setting. The operators name their schema, so
 * no search_path can replace them.
 */
export const formatsChanged: Fragment = fixed(sql`not (${join(areSet, AND)})`)

/** The number of the first setting that has changed, from 1. */
export const changedFormat: Fragment = fixed(
  sql`pg_catalog.array_position(array[${join(areSet)}], false)`
)
