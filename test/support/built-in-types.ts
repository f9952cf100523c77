/**
 * Built-in types as the catalogue describes them, for tests without a database.
 */
import { readTypes, type TypeRow } from '../../src/catalogue/read-types.ts'
import type { Type } from '../../src/catalogue/type.ts'

const array = (oid: number, element: string, part: number, delimiter = ','): TypeRow =>
  [oid, 'b', 'pg_catalog', `_${element}`, 'A', part, -1, delimiter, null, 0]
const range = (oid: number, kind: 'r' | 'm', name: string, part: number): TypeRow =>
  [oid, kind, 'pg_catalog', name, 'R', part, -1, ',', null, 0]

export const builtInRows: readonly TypeRow[] = [
  array(199, 'json', 114),
  [600, 'b', 'pg_catalog', 'point', 'G', 701, -1, ',', null, 0],
  [603, 'b', 'pg_catalog', 'box', 'G', 600, -1, ';', null, 0],
  array(791, 'money', 790),
  array(1007, 'int4', 23),
  array(1009, 'text', 25),
  array(1015, 'varchar', 1043),
  array(1020, 'box', 603, ';'),
  array(1187, 'interval', 1186),
  array(1231, 'numeric', 1700),
  array(3807, 'jsonb', 3802),
  range(3904, 'r', 'int4range', 23),
  array(3905, 'int4range', 3904),
  range(3908, 'r', 'tsrange', 1114),
  range(4451, 'm', 'int4multirange', 23),
  range(4532, 'm', 'nummultirange', 1700)
]

const find = readTypes(builtInRows, 's')

/** Returns a type by its OID. */
export function builtIn (oid: number, modifier = -1): Type {
  return find(oid, modifier)
}
