/**
 * The repeated parts of the grammar of a batch: conditions, steps of a path, references, rows,
 * columns, letters of a name, …
 */
import { maxColumns, maxConditions } from '../../../schemas/operation.ts'
import type { Frame } from './draft.ts'
import { conditions } from './conditions.ts'
import { items, listPlaces } from './lists.ts'
import { others } from './others.ts'
import {
  column,
  filtering,
  times,
  writing,
  MAX_ROWS,
  UNLIMITED,
  type Part
} from './part.ts'
import { depthPlaces, depths, letters, numberPlaces, numbers, texts } from './texts.ts'
import { aggregates, conflictOnly, keyedRows, modifiers, outputs, rows } from './values.ts'

const returning: readonly Frame[] =
  ['insert', 'upsert', 'insert_from', 'update', 'update_from', 'bulk_update', 'delete']

/** Groups of parts: each word of the language, and each kind of text, is in one of them. */
export const partGroups: ReadonlyArray<readonly Part[]> = [
  Object.entries(conditions).map(([name, make]): Part => ({
    name: `conditions: ${name}`,
    frames: [...filtering, 'bulk_update'],
    max: maxConditions,
    make: n => ({ where: times(n, make) })
  })),
  Object.entries(listPlaces).flatMap(([place, { frames, make }]) =>
    Object.entries(items).map(([name, item]): Part => ({
      name: `${place}: ${name}`, frames, max: UNLIMITED, make: n => make(times(n, item).join())
    }))),
  Object.entries(rows).map(([name, make]): Part => ({
    name: `rows: ${name}`,
    frames: ['insert', 'upsert'],
    max: MAX_ROWS,
    make: n => ({ values: times(n, make) })
  })),
  Object.entries(keyedRows).map(([name, make]): Part => ({
    name: `rows by key: ${name}`,
    frames: ['bulk_update'],
    max: MAX_ROWS,
    make: n => ({ values: times(n, i => `{"id":${i},${make(i)}}`) })
  })),
  Object.entries(modifiers).flatMap(([name, make]): readonly Part[] => [
    {
      name: `set: ${name}`,
      frames: writing,
      max: maxColumns,
      make: n => ({ set: times(n, i => `"${column(i)}":${make(i)}`) })
    },
    {
      name: `set of on_conflict: ${name}`,
      frames: ['upsert'],
      max: maxColumns,
      make: n => ({ 'on_conflict.set': times(n, i => `"${column(i)}":${make(i)}`) })
    }
  ]),
  Object.entries(conflictOnly).map(([name, make]): Part => ({
    name: `set of on_conflict: ${name}`,
    frames: ['upsert'],
    max: maxColumns,
    make: n => ({ 'on_conflict.set': times(n, i => `"${column(i)}":${make(i)}`) })
  })),
  Object.entries(outputs).flatMap(([name, make]): readonly Part[] => [
    {
      name: `columns: ${name}`,
      frames: ['select', 'call', 'nested'],
      max: maxColumns,
      make: n => ({ columns: times(n, make) })
    },
    {
      name: `returning: ${name}`,
      frames: returning,
      max: maxColumns,
      make: n => ({ returning: times(n, make) })
    }
  ]),
  Object.entries(aggregates).map(([name, make]): Part => ({
    name: `columns: ${name}`,
    frames: ['select', 'count'],
    max: maxColumns,
    make: n => ({ columns: times(n, make) })
  })),
  Object.entries(texts).flatMap(([place, { frames, make }]) =>
    Object.entries(letters).map(([name, text]): Part => ({
      name: `${place} of ${name}`, frames, max: UNLIMITED, make: n => make(text(n))
    }))),
  Object.entries(numberPlaces).flatMap(([place, { frames, make }]) =>
    Object.entries(numbers).map(([name, text]): Part => ({
      name: `${place}, a number of ${name}`, frames, max: UNLIMITED, make: n => make(text(n))
    }))),
  Object.entries(depthPlaces).flatMap(([place, { frames, make }]) =>
    Object.entries(depths).map(([name, text]): Part => ({
      name: `${place}, nested ${name}`, frames, max: UNLIMITED, make: n => make(text(n))
    }))),
  others
]

export const parts: readonly Part[] = partGroups.flat()
