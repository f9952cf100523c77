/**
 * The types that an output column can be converted to. One row of `casts` defines a word: its type
 * in pg_catalog.
 */
import { oneOf } from './one-of.ts'

export const casts = {
  text: 'text',
  int: 'int4',
  bigint: 'int8',
  numeric: 'numeric',
  float8: 'float8',
  boolean: 'bool',
  date: 'date',
  time: 'time',
  timestamp: 'timestamp',
  timestamptz: 'timestamptz',
  interval: 'interval',
  uuid: 'uuid',
  json: 'json',
  jsonb: 'jsonb'
} as const

export type CastName = keyof typeof casts

export const Cast = oneOf(Object.keys(casts) as CastName[], {
  title: 'Cast',
  description: 'the type that the value is converted to'
})
