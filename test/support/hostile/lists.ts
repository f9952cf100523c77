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
  'short strings': () => '""',
  numbers: i => String(i % 10),
  'exact numbers': i => `1.${i}0`,
  'exponents of 400 digits': i => `${i % 10}e${'9'.repeat(400)}`,
  'numbers of 1000 digits': i => `${(i % 9) + 1}${'9'.repeat(999)}`,
  'escaped strings': () => '"\\u00e9\\n"',
  'strings with $$': i => `"$$p.${i}.a"`,
  'dollar strings': i => `"$5.${i}"`,
  'one reference': () => '"$p.0.a"',
  'a reference each': reference,
  'references to a column each': i => `"$p.0.c${i}"`,
  'references to a row each': i => `"$p.${i}"`,
  'references to a list each': i => `"$p.*.c${i}"`,
  'references to two operations': i => i % 2 === 0 ? reference(i) : `"$q.${i}.a"`,
  'unknown references': i => `"$u${i}.0.a"`,
  'malformed references': i => `"$p.${i}.a.b"`,
  'later references': () => '"$z.0.a"',
  $first: i => `{"$first":["$p.${i % 100}.a","$q.0.a"]}`,
  'empty objects': () => '{}',
  'empty arrays': () => '[]',
  nulls: () => 'null',
  'objects with a $': i => `{"$x${i}":1}`,
  'objects of one reference': i => `{"k":${reference(i)}}`
}

/** Where a list of elements can be; each is a value of its own otherwise. */
export const listPlaces: Readonly<Record<string, Place>> = {
  in: inFilter(list => `{"a":{"in":[${list}]}}`),
  'in of a number': inFilter(list => `{"b":{"in":[${list}]}}`),
  'eq any': inFilter(list => `{"a":{"eq":{"any":[${list}]}}}`),
  has_keys_any: inFilter(list => `{"j":{"has_keys_any":[${list}]}}`),
  cs: inFilter(list => `{"j":{"cs":[${list}]}}`),
  'cs of a list': inFilter(list => `{"tags":{"cs":[${list}]}}`),
  'eq $value': inFilter(list => `{"j":{"eq":{"$value":[${list}]}}}`),
  'a value of insert': inMember(['insert', 'upsert'], 'values', list => `{"j":[${list}]}`),
  'a value of insert in text': inMember(['insert', 'upsert'], 'values', list => `{"a":[${list}]}`),
  set: inMember(writing, 'set', list => `"j":[${list}]`),
  'set $append': inMember(writing, 'set', list => `"j":{"$append":[${list}]}`),
  'set $value': inMember(writing, 'set', list => `"j":{"$value":[${list}]}`),
  'set $first': inMember(writing, 'set', list => `"j":{"$first":[${list}]}`),
  'set of on_conflict': inMember(['upsert'], 'on_conflict.set', list => `"j":[${list}]`),
  'a value by key': inMember(['bulk_update'], 'values', list => `{"id":1,"j":[${list}]}`),
  'columns of insert from': inMember(['insert_from'], 'columns', list => `"j":[${list}]`),
  'an argument': inMember(['call'], 'args', list => `"j":[${list}]`),
  after: { frames: ['select'], make: list => ({ order: ['{"a":"asc"}'], after: [list] }) },
  index_where: inMember(['upsert'], 'on_conflict.index_where', list => `{"a":{"in":[${list}]}}`)
}
