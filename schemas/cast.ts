/**
 * The types that an output column can be converted to. One row of `casts` defines a word: its type
 * in PostgreSQL.
 */
import { oneOf } from './one-of.ts'

export const casts = {
  text: 'pg_catalog.text',
  int: 'pg_catalog.int4',
  bigint: 'pg_catalog.int8',
  numeric: 'pg_catalog.numeric',
  float8: 'pg_catalog.float8',
  boolean: 'pg_catalog.bool',
  date: 'pg_catalog.date',
  time: 'pg_catalog.time',
  timestamp: 'pg_catalog.timestamp',
  timestamptz: 'pg_catalog.timestamptz',
  interval: 'pg_catalog.interval',
  uuid: 'pg_catalog.uuid',
  json: 'pg_catalog.json',
  jsonb: 'pg_catalog.jsonb'
} as const

export type CastName = keyof typeof casts

export const Cast = oneOf(Object.keys(casts) as CastName[], {
  title: 'Cast',
  description: 'the type that the value is converted to'
})
