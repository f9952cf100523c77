/**
 * Texts, numbers and nested JSON of any length, and where they can be.
 */
import {
  inFilter,
  inMember,
  writing,
  type Place
} from './part.ts'

/** A text of `n` characters, and where it is. */
export const texts: Readonly<Record<string, Place>> = {
  'a value of insert': inMember(['insert', 'upsert'], 'values', text => `{"a":"${text}"}`),
  'a key in JSON': inMember(['insert'], 'values', text => `{"j":{"${text}":1}}`),
  'a name of a column': inMember(['insert'], 'values', text => `{"${text}":1}`),
  'an operand': inFilter(text => `{"a":{"eq":"${text}"}}`),
  'a pattern': inFilter(text => `{"a":{"match":"${text}"}}`),
  'an operator': inFilter(text => `{"a":{"${text}":1}}`),
  'a column of where': inFilter(text => `{"${text}":{"eq":1}}`),
  'a reference': inFilter(text => `{"a":{"eq":"$${text}.0.a"}}`),
  'an alias': inMember(['select'], 'columns', text => `{"column":"a","as":"${text}"}`),
  'an unknown member': {
    frames: ['select', 'insert', 'update', 'delete', 'call'], make: text => ({ [text]: ['1'] })
  },
  'a constraint': {
    frames: ['insert'],
    make: text => ({ 'on_conflict.constraint': [`"${text}"`], 'on_conflict.do': ['"nothing"'] })
  },
  'a lock': inMember(['select'], 'lock', text => `"${text}"`),
  'a constant of index_where': inMember(
    ['upsert'], 'on_conflict.index_where', text => `{"a":{"eq":"${text}"}}`
  ),
  'an id': inMember(['select'], 'id', text => `"${text}"`),
  'an answer': inMember(['select'], 'answer', text => `"${text}"`)
}

/** What such a text consists of. */
export const letters: Readonly<Record<string, (n: number) => string>> = {
  letters: n => 'n'.repeat(n),
  dots: n => 'a.'.repeat(n / 2),
  arrows: n => `j${'->k'.repeat(n / 3)}`,
  quotes: n => '\\"'.repeat(n / 2),
  backslashes: n => '\\\\'.repeat(n / 2),
  escapes: n => '\\u00e9'.repeat(n / 6)
}

/** Numbers of `n` characters. */
export const numbers: Readonly<Record<string, (n: number) => string>> = {
  digits: n => `1${'9'.repeat(n)}`,
  fractions: n => `0.${'0'.repeat(n)}1`,
  exponents: n => `1e${'9'.repeat(n)}`
}

export const numberPlaces: Readonly<Record<string, Place>> = {
  'an operand': inFilter(text => `{"n":{"eq":${text}}}`),
  'an operand of an integer': inFilter(text => `{"b":{"eq":${text}}}`),
  'a value': inMember(['insert', 'upsert'], 'values', text => `{"n":${text}}`),
  $inc: inMember(writing, 'set', text => `"n":{"$inc":${text}}`),
  'a key': inMember(['bulk_update'], 'values', text => `{"id":${text},"a":"x"}`),
  expect: inMember(['select'], 'expect', text => text)
}

/** JSON that is `n` levels deep. */
export const depths: Readonly<Record<string, (n: number) => string>> = {
  arrays: n => `${'['.repeat(n)}${']'.repeat(n)}`,
  objects: n => `${'{"k":'.repeat(n)}1${'}'.repeat(n)}`,
  'objects with a $': n => `${'{"$value":'.repeat(n)}1${'}'.repeat(n)}`
}
export const depthPlaces: Readonly<Record<string, Place>> = {
  'a value': inMember(['insert'], 'values', text => `{"j":${text}}`),
  'an operand': inFilter(text => `{"j":{"eq":${text}}}`),
  where: inFilter(text => text)
}
