/**
 * Reads from headers how a batch is to run: `Prefer` (RFC 7240), and `Oneflight-Position`, which
 * says what a read on the replica must see. Sends `Preference-Applied` when the batch succeeds. An
 * unknown preference is ignored, as the RFC requires, unless the client sends `handling=strict`. A
 * known preference with an unknown value is always refused: a mistyped dry run must not commit.
 * Routes use `readPreferences` and `readPosition` as onRequest hooks.
 */
import type { FastifyInstance, onRequestHookHandler } from 'fastify'
import type { Config } from '../../schemas/config.ts'
import { headerValues, positionPattern } from '../../schemas/http.ts'
import {
  enabled,
  defaultPreferences,
  preferenceItems,
  renderPreference,
  type PreferenceItem,
  type Preferences
} from '../../schemas/prefer.ts'
import { failure, type Failure } from '../../src/errors/catalogue.ts'
import { suggest } from '../../src/errors/suggestion.ts'

declare module 'fastify' {
  interface FastifyRequest {
    preferences: Preferences
    /** The value of `Preference-Applied`; empty when no preference is known. */
    preferenceApplied: string
    /** The value of `Oneflight-Position`; undefined without the header. */
    position: string | undefined
  }
}

/**
 * One element of the header. `name` is lower case, and empty when there is none; `value` is lower
 * case without quotes, and undefined when the element is malformed.
 */
interface Element {
  readonly text: string
  readonly name: string
  readonly value: string | undefined
}

// Grammar of RFC 7240 §2 and RFC 9110 §5.6; Node decodes header bytes as latin1. Matching takes
// linear time, because no part of these expressions matches the same text in two ways.
const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const QUOTED = '"(?:[\\t !\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"'
const PAIR = `(${TOKEN})(?:[ \\t]*=[ \\t]*(${TOKEN}|${QUOTED}))?`
const PREFERENCE = new RegExp(`^[ \\t]*${PAIR}(?:[ \\t]*;(?:[ \\t]*${PAIR})?)*[ \\t]*$`)

/**
 * Text between commas outside of quotes. The group is empty when a quote is not closed; the match
 * then extends to the end of the line.
 */
const PIECE = /(?:[^",]+|"(?:[^"\\]|\\.?)*("|$))+/g

const ALL_QUOTED = new RegExp(QUOTED, 'g')

/** Maximum characters of a header that an error message quotes. */
const MAX_QUOTE = 60

export function createReadPreferences (
  app: FastifyInstance,
  { EXPLAIN }: Config
): onRequestHookHandler {
  app.decorateRequest('preferences')
  app.decorateRequest('preferenceApplied', '')
  app.decorateRequest('position', undefined)
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (reply.statusCode === 200 && request.preferenceApplied !== '') {
      reply.header('preference-applied', request.preferenceApplied)
    }
    done()
  })
  return (request, _reply, done) => {
    const lines = headerValues(request.raw.rawHeaders, 'prefer')
    if (lines.length === 0) {
      request.preferences = defaultPreferences
      return done()
    }
    const elements = lines.flatMap(readLine)
    const known = readKnown(elements)
    const preferences: Preferences = { ...defaultPreferences, ...Object.fromEntries(known) }
    const unknown = elements.find(({ name }) => !preferenceItems.has(name))
    if (preferences.handling === 'strict' && unknown !== undefined) {
      throw refuse(describeUnknown(unknown))
    }
    // Always refused: a client that asks for query plans does not want the batch to run.
    if (preferences.explain === enabled && EXPLAIN === 'off') {
      throw refuse(
        'This service does not return query plans (EXPLAIN=off). The batch was not run.'
      )
    }
    request.preferences = preferences
    request.preferenceApplied = [...known].map(([name, value]) => renderPreference(name, value))
      .join(', ')
    done()
  }
}

/** `Oneflight-Position`: what a read on the replica must see. */
export const readPosition: onRequestHookHandler = (request, _reply, done) => {
  const [sent, ...more] = headerValues(request.raw.rawHeaders, 'oneflight-position')
  if (more.length > 0 || (sent !== undefined && !positionPattern.test(sent))) {
    throw failure('position_invalid')
  }
  request.position = sent
  done()
}

/**
 * Splits one header line. An unclosed quote is split at its commas too, so that it cannot hide
 * what follows, such as `handling=strict`.
 */
function readLine (line: string): readonly Element[] {
  const pieces = [...line.matchAll(PIECE)].flatMap(([text, close]) =>
    close === '' ? text.split(',') : [text]
  )
  return pieces.filter(text => /[^ \t]/.test(text)).map(readElement)
}

/** Of a malformed element, the name is its first word: it may be a mistyped known preference. */
function readElement (text: string): Element {
  const [, name, value = ''] = PREFERENCE.exec(text) ?? []
  if (name === undefined) return { text, name: readWords(text)[0] ?? '', value: undefined }
  return {
    text,
    name: name.toLowerCase(),
    value: (value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value)
      .toLowerCase()
  }
}

function readWords (text: string): readonly string[] {
  return text.toLowerCase().match(/[\w-]+/g) ?? []
}

/**
 * Returns the values of the known preferences by name. Throws for an unknown value, and for a
 * preference with two values, of which RFC 7240 §2 would ignore one.
 */
function readKnown (elements: readonly Element[]): ReadonlyMap<string, string> {
  const known = new Map<string, string>()
  for (const { text, name, value } of elements) {
    const item = preferenceItems.get(name)
    if (item === undefined) continue
    if (!item.anyOf.some(word => word.const === value)) throw refuse(describeValues(name, text))
    if ((known.get(name) ?? value) !== value) {
      throw refuse(`Preference ${name} is repeated with another value: ${printable(text)}`)
    }
    const parameter = readParameters(text).find(other => preferenceItems.has(other))
    if (parameter !== undefined) {
      throw refuse(
        `Separate preferences by commas: ${parameter} is a parameter of ${name} here: ` +
          printable(text)
      )
    }
    known.set(name, value as string)
  }
  return known
}

/** The names after `;`. No preference here has a parameter: others are ignored. */
function readParameters (text: string): readonly string[] {
  const parts = text.replace(ALL_QUOTED, '').toLowerCase().split(';')
  return parts.slice(1).map(part => part.split('=', 1)[0]?.trim() as string)
}

function refuse (message: string): Failure {
  return failure('prefer_invalid', message)
}

function describeUnknown ({ text, value }: Element): string {
  return value === undefined
    ? `Malformed Prefer header at: ${printable(text)}`
    : `Unknown preference: ${printable(text)}`
}

function describeValues (name: string, text: string): string {
  const { anyOf } = preferenceItems.get(name) as PreferenceItem
  const values = anyOf.map(({ const: value }) => value)
  const shown = values.map(value => value === enabled ? 'no value' : value)
  const near = suggest(readWords(text)[1] ?? '', values)
  return `Preference ${name} takes ${shown.join(' or ')}, got: ${printable(text)}` +
    (near === undefined ? '' : `. Did you mean ${renderPreference(name, near)}?`)
}

/** Shortens a part of a header and replaces characters that a terminal or a log would interpret. */
function printable (text: string): string {
  const shown = text.trim().replace(/[^ -~]/g, '?')
  return shown.length > MAX_QUOTE ? `${shown.slice(0, MAX_QUOTE)}…` : shown
}
