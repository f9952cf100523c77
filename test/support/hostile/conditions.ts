/**
 * Conditions of a filter.
 */
import {
  cycle,
  path,
  column,
  reference,
  times,
  type Element
} from './part.ts'

/** Conditions, of which one operation can have 1000. */
export const conditions: Readonly<Record<string, Element>> = {
  eq: i => `{"a":{"eq":"x${i}"}}`,
  'eq of one column each': i => `{"${column(i)}":{"eq":${i}}}`,
  'eq of a path of 99 keys': i => `{"${path(i, 99)}":{"eq":${i}}}`,
  'eq of a reference each': i => `{"a":{"eq":${reference(i)}}}`,
  'eq of a reference to a list': i => `{"a":{"eq":{"any":"$p.*.${column(i)}"}}}`,
  'eq of $first': i => `{"a":{"eq":{"$first":["$p.${i % 100}.a","$q.0.a"]}}}`,
  'eq of $value': i => `{"j":{"eq":{"$value":{"k":[${i},{"l":"$p.${i}.a"}]}}}}`,
  'eq of $col': i => `{"a":{"eq":{"$col":"${path(i, 20)}"}}}`,
  'eq any or all of 100': i =>
    `{"b":{"eq":{"${cycle(['any', 'all'], i)}":[${times(100, k => String(i + k)).join()}]}}}`,
  'in of 20 references': i => `{"a":{"in":[${times(20, k => reference(i + k)).join()}]}}`,
  'other operators': i => `{"b":{"nin":[${i},1.5e3,"7"],"isdistinct":${i},"is":"not_null"}}`,
  patterns: i => `{"a":{"${cycle(['like', 'ilike', 'match', 'imatch'], i)}":"%(a|b)*${i}"}}`,
  between: i => `{"b":{"between":[${i},"$p.0.b"]}}`,
  'full text': i => `{"a":{"${cycle(['fts', 'plfts', 'phfts', 'wfts'], i)}":${
    `{"query":"word${i}","config":"english"}`
  }}}`,
  cs: i => `{"j":{"cs":{"k":[${i},"$p.${i}.a"]}}}`,
  ranges: i => `{"span":{"${
    cycle(['cd', 'ov', 'sl', 'sr', 'nxr', 'nxl', 'adj'], i)
  }":"[1,${i + 2})"}}`,
  has_key: i => `{"j":{"has_key":"k${i}"}}`,
  'has_keys_all of a list': () => '{"j":{"has_keys_all":"$p.*.a"}}',
  'several operators of a column': i => `{"a":{${['eq', 'neq', 'gt', 'lt', 'gte', 'lte', 'like']
    .map(name => `"${name}":"x${i}"`).join()}}}`,
  'nested 8 deep': i => `${'{"not":'.repeat(8)}{"a":{"eq":"x${i}"}}${'}'.repeat(8)}`,
  or: i => `{"or":[{"a":{"eq":"x${i}"}},{"b":{"gt":${i}}}]}`,
  'exists 8 deep': i => '{"exists":{"table":"u","on":{"t_id":"id"},"where":'.repeat(7) +
    `{"a":{"eq":"x${i}"}}${'}}'.repeat(7)}`,
  'exists on 20 columns': i =>
    `{"not_exists":{"table":"u","on":{${times(20, k => `"c${k}":"c${i + k}"`).join()}}}}`,
  'an unknown operator': i => `{"a":{"equals${i}":"x"}}`,
  'an unknown reference': i => `{"a":{"eq":"$unknown${i}.0.a"}}`
}
