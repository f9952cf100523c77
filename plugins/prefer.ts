/**
 * Reads from headers how a batch is to run: `Prefer` (RFC 7240), and `Oneflight-Position`, which
 * says what a read on the replica must see. Sends `Preference-Applied` when the batch succeeds. An
 * unknown preference is ignored, as the RFC requires, unless the client sends `handling=strict`.
 * Routes use the decorators `readPreferences` and `readPosition` as onRequest hooks.
 */
import type { FastifyInstance, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { ConfigOptions } from '../schemas/config.ts'
import { headerValues, positionPattern } from '../schemas/http.ts'
import {
  enabled,
  defaultPreferences,
  preferenceItems,
  renderPreference,
  type Preferences
} from '../schemas/prefer.ts'
import { failure, type Failure } from '../src/errors/catalogue.ts'

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
 * One element of the header. `text` is the original; `name` and `value` are lower case without
 * quotes, and missing when the element is malformed.
 */
interface Element {
  readonly text: string
  readonly name?: string
  readonly value?: string
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

/** Maximum characters of a header that an error message quotes. */
const MAX_QUOTE = 60

async function prefer (app: FastifyInstance, { config }: ConfigOptions): Promise<void> {
  app.decorateRequest('preferences')
  app.decorateRequest('preferenceApplied', '')
  app.decorateRequest('position', undefined)
  app.decorate('readPosition', readPosition)
  app.decorate<onRequestHookHandler>('readPreferences', (request, _reply, done) => {
    const elements = withoutRepetitions(
      headerValues(request.raw.rawHeaders, 'prefer').flatMap(readLine)
    )
    const known: Partial<Preferences> = Object.fromEntries(
      elements.filter(isKnown).map(({ name, value }) => [name, value])
    )
    const preferences: Preferences = { ...defaultPreferences, ...known }
    const unknown = elements.find(element => !isKnown(element))
    if (preferences.handling === 'strict' && unknown !== undefined) throw refusal(unknown)
    // Always refused: a client that asks for query plans does not want the batch to run.
    if (preferences.explain === enabled && config.EXPLAIN === 'off') {
      throw failure(
        'prefer_invalid',
        'This service does not return query plans (EXPLAIN=off). The batch was not run.'
      )
    }
    request.preferences = preferences
    request.preferenceApplied = Object.entries(known).map(([name, value]) =>
      renderPreference(name, value)
    ).join(', ')
    done()
  })
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (reply.statusCode === 200 && request.preferenceApplied !== '') {
      reply.header('preference-applied', request.preferenceApplied)
    }
    done()
  })
}

/** `Oneflight-Position`: what a read on the replica must see. */
const readPosition: onRequestHookHandler = (request, _reply, done) => {
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

/** Parameters (after `;`) must be well-formed and are ignored: no preference here has any. */
function readElement (text: string): Element {
  const [, name, value = ''] = PREFERENCE.exec(text) ?? []
  if (name === undefined) return { text }
  return {
    text,
    name: name.toLowerCase(),
    value: (value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value)
      .toLowerCase()
  }
}

/**
 * Keeps the first element of each name, with any value (RFC 7240 §2), and all malformed elements.
 */
function withoutRepetitions (elements: readonly Element[]): readonly Element[] {
  const seen = new Set<string>()
  return elements.filter(({ name }) => {
    if (name === undefined) return true
    const first = !seen.has(name)
    seen.add(name)
    return first
  })
}

function isKnown ({ name = '', value }: Element): boolean {
  return preferenceItems.get(name)?.anyOf.some(item => item.const === value) === true
}

function refusal ({ text, name }: Element): Failure {
  return failure('prefer_invalid', describeProblem(name, printable(text)))
}

function describeProblem (name: string | undefined, quote: string): string {
  if (name === undefined) return `Malformed Prefer header at: ${quote}`
  const item = preferenceItems.get(name)
  if (item === undefined) return `Unknown preference: ${quote}`
  const values = item.anyOf.map(({ const: value }) => value === enabled ? 'no value' : value)
  return `Preference ${name} takes ${values.join(' or ')}, got: ${quote}`
}

/** Shortens a part of a header and replaces characters that a terminal or a log would interpret. */
function printable (text: string): string {
  const shown = text.trim().replace(/[^ -~]/g, '?')
  return shown.length > MAX_QUOTE ? `${shown.slice(0, MAX_QUOTE)}…` : shown
}

export default fp(prefer, { name: 'prefer', dependencies: ['errors'] })
