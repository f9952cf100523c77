/**
 * Lists of literals and references, and where they can be.
 */
import {
  inFilter,
  inMember,
  reference,
  writing,
  type Element,
  type Place
} from './part.ts'

/** Elements of one list of literals or references. */
export const items: Readonly<Record<string, Element>> = {
  strings: i => `"x${i}"`,
  'exact numbers': i => `1.${i}0`,
  'a reference each': reference,
  'references to a list each': i => `"$p.*.c${i}"`,
  'references to two operations': i => i % 2 === 0 ? reference(i) : `"$q.${i}.a"`,
  $first: i => `{"$first":["$p.${i % 100}.a","$q.0.a"]}`,
  'objects of one reference': i => `{"k":${reference(i)}}`
}

/** Where a list of elements can be; each is a value of its own otherwise. */
export const listPlaces: Readonly<Record<string, Place>> = {
  in: inFilter(list => `{"a":{"in":[${list}]}}`),
  'eq any': inFilter(list => `{"a":{"eq":{"any":[${list}]}}}`),
  has_keys_any: inFilter(list => `{"j":{"has_keys_any":[${list}]}}`),
  'eq $value': inFilter(list => `{"j":{"eq":{"$value":[${list}]}}}`),
  'a value of insert': inMember(['insert', 'upsert'], 'values', list => `{"j":[${list}]}`),
  'set $append': inMember(writing, 'set', list => `"j":{"$append":[${list}]}`),
  'an argument': inMember(['call'], 'args', list => `"j":[${list}]`),
  after: { frames: ['select'], make: list => ({ order: ['{"a":"asc"}'], after: [list] }) },
  index_where: inMember(['upsert'], 'on_conflict.index_where', list => `{"a":{"in":[${list}]}}`)
}
