/**
 * Says why a value does not fit its type, and what to write instead.
 */
import { nameOf, type BaseType, type Form, type Type } from '../catalogue/type.ts'
import { MAX_TEXT } from './text-forms.ts'
import { MAX_PRECISION } from './time-text.ts'
import type { WriteIssue, WriteProblem } from './issue.ts'

/**
 * Describes an issue without its place: `numeric(10,2) holds 2 digits after the point.` `help`:
 * what to write instead, if that is known.
 */
export function describeIssue ({ problem, path, type }: WriteIssue, help?: string): string {
  const name = type === undefined ? '' : nameOf(type)
  const more = help === undefined ? '' : ` ${help}`
  switch (problem) {
    case 'member':
      return `the type ${name} has no member "${path.at(-1)}".${more}`
    case 'list':
      return `the type ${name} takes one value, not an array or an object. ${
        help ?? 'To store JSON text, send it as a string.'
      }`
    case 'json':
      return `the type ${name} takes no JSON of an earlier operation. Send an object with its ` +
        'members, of which each can be a reference.'
    case 'dimension':
      return `the first element of an array of ${name} is no list of an earlier operation or a ` +
        'parameter, which would be a dimension. Use a column of type jsonb.'
    case 'empty':
      return 'an array of PostgreSQL contains no empty list. Leave it out, or use a column of ' +
        'type jsonb.'
    case 'array':
      return `the type ${name} takes an array.${more}`
    case 'object':
      return `the type ${name} takes an object with its members.`
    case 'bounds':
      return `the type ${name} takes an array of two bounds, each a value or a reference, or ` +
        'a text like "[1,5)".'
    case 'ragged':
      return 'the arrays inside an array of PostgreSQL have the same length. Use a column of ' +
        'type jsonb.'
    case 'unknown':
      return `the parts of the type ${name} are not known. Send its text as a string.`
    case 'other':
      return `the type ${name} takes no value of the type of this reference.`
    case 'type':
      return 'functions of this name take it with different types, or with any type. Send the ' +
        'value itself, not a reference.'
    case 'null':
      return 'only json and jsonb can hold the JSON null. To compare with NULL, write {"is": null}.'
    case 'key':
      return 'a key must not be null.'
    case '$append':
      return '$append needs an array in the row. To replace the value, set the value itself.'
    case '$merge':
      return '$merge needs a jsonb column that holds an object, and an object to merge. To ' +
        'replace the value, set the value itself.'
    case 'parts':
      return `a text of the type ${name} has at most ${MAX_TEXT} characters. Send it as JSON.`
    case 'form':
      return `${name} takes no text of this form. Write it like "${formOf(type as BaseType)}".`
    default:
      return `${name} holds ${describeLimit(problem, type as Type)}.`
  }
}

function describeLimit (
  problem: WriteProblem,
  type: Type
): string {
  // Only base types lose a part.
  const { length, precision = MAX_PRECISION, scale = 0, fields = '' } = type as BaseType
  switch (problem) {
    case 'characters':
      return count(length as number, 'character')
    case 'bytes':
      return count(type.name === 'name' ? 63 : 1, 'byte')
    case 'fraction':
      return `${countDigits(precision)} of a second's fraction`
    case 'zone':
      return 'no offset or time zone'
    case 'day':
      return 'no date'
    case 'clock':
      return 'no time of day'
    case 'fields':
      return `nothing smaller than a ${fields.split(' ').at(-1)}`
    default:
      if (scale < 0) return `multiples of 1${'0'.repeat(-scale)}`
      return `${countDigits(type.name === 'money' ? 2 : scale)} after the point`
  }
}

const FORMS: Readonly<Partial<Record<Form, string>>> = {
  date: '2026-03-05',
  time: '10:00:00.5',
  timetz: '10:00:00.5+02',
  timestamp: '2026-03-05 10:00:00.5',
  timestamptz: '2026-03-05 10:00:00.5+02'
}

/** A text that is understood. */
function formOf ({ form, fields = 'second' }: BaseType): string {
  return FORMS[form] ?? `5 ${fields.split(' ').at(-1)}s`
}

function countDigits (number: number): string {
  return number === 0 ? 'no digits' : count(number, 'digit')
}

function count (number: number, unit: string): string {
  return `${number} ${unit}${number === 1 ? '' : 's'}`
}
