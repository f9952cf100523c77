/**
 * What the client prefers (`Prefer`, RFC 7240): read from the headers alone, answered by
 * `Preference-Applied` when the batch succeeded. A preference that is not understood is ignored, as
 * the RFC has it, unless `handling=strict` asks for a refusal. What a preference does is the
 * business of whoever reads it. The decorator `readPreferences` is a hook for routes that have
 * preferences.
 */
import type { FastifyInstance, onRequestAsyncHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../schemas/config.ts'
import {
  asked,
  defaultPreferences,
  preferenceItems,
  renderPreference,
  type Preferences
} from '../schemas/prefer.ts'
import { failure, type Failure } from '../src/errors/catalogue.ts'

export interface PreferOptions {
  readonly config: Config
}

declare module 'fastify' {
  interface FastifyRequest {
    preferences: Preferences
    /** The text of `Preference-Applied`; empty when no preference was understood. */
    preferenceApplied: string
  }
}

/**
 * One element of the header: `text` as it was sent; the rest when it is well-formed, in lower case
 * and without quotes.
 */
interface Element {
  readonly text: string
  readonly name?: string
  readonly value?: string
}

// RFC 7240 §2, RFC 9110 §5.6; Node reads header bytes as latin1. The time that these expressions
// take grows with the length of the header alone, whatever it holds: nothing in them matches the
// same text in two ways.
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const quoted = '"(?:[\\t !\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"'
const pair = `(${token})(?:[ \\t]*=[ \\t]*(${token}|${quoted}))?`
const preference = new RegExp(`^[ \\t]*${pair}(?:[ \\t]*;(?:[ \\t]*${pair})?)*[ \\t]*$`)

/**
 * What stands between commas outside of quotes; the group is empty when a quote is never closed,
 * which then takes the rest.
 */
const piece = /(?:[^",]+|"(?:[^"\\]|\\.?)*("|$))+/g

async function prefer (app: FastifyInstance, { config }: PreferOptions): Promise<void> {
  app.decorateRequest('preferences')
  app.decorateRequest('preferenceApplied', '')
  const readPreferences: onRequestAsyncHookHandler = async request => {
    const elements = withoutRepetitions(
      (request.raw.headersDistinct['prefer'] ?? []).flatMap(readLine)
    )
    const understood: Partial<Preferences> = Object.fromEntries(
      elements.filter(isUnderstood).map(({ name, value }) => [name, value])
    )
    const preferences: Preferences = { ...defaultPreferences, ...understood }
    const refused = preferences.handling === 'strict'
      ? elements.find(element => !isUnderstood(element))
      : undefined
    if (refused !== undefined) throw refusal(refused)
    // Not ignored as others are: who asks for a plan does not want the batch to be run.
    if (preferences.explain === asked && config.EXPLAIN === 'off') {
      throw failure(
        'prefer_invalid',
        'This service does not explain batches (EXPLAIN=off); the batch was not run.'
      )
    }
    request.preferences = preferences
    request.preferenceApplied = Object.entries(understood).map(([name, value]) =>
      renderPreference(name, value)
    ).join(', ')
  }
  app.decorate('readPreferences', readPreferences)
  app.addHook('onSend', async (request, reply) => {
    if (reply.statusCode === 200 && request.preferenceApplied !== '') {
      reply.header('preference-applied', request.preferenceApplied)
    }
  })
}

/**
 * The elements of one header line. A quote that is never closed must not hide what follows it,
 * `handling=strict` least of all.
 */
function readLine (line: string): readonly Element[] {
  const pieces = [...line.matchAll(piece)].flatMap(([text, close]) =>
    close === '' ? text.split(',') : [text]
  )
  return pieces.filter(text => /[^ \t]/.test(text)).map(readElement)
}

/**
 * Parameters (after `;`) have to be well-formed; no preference of ours has any, so they mean
 * nothing.
 */
function readElement (text: string): Element {
  const [, name, value = ''] = preference.exec(text) ?? []
  if (name === undefined) return { text }
  return {
    text,
    name: name.toLowerCase(),
    value: (value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value)
      .toLowerCase()
  }
}

/**
 * Of a preference that is repeated the first counts, whatever its value (RFC 7240 §2). What is
 * malformed repeats nothing.
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

function isUnderstood ({ name = '', value }: Element): boolean {
  return preferenceItems.get(name)?.anyOf.some(word => word.const === value) === true
}

function refusal ({ text, name }: Element): Failure {
  const quote = printable(text)
  if (name === undefined) {
    return failure('prefer_invalid', `The Prefer header is malformed at: ${quote}`)
  }
  const item = preferenceItems.get(name)
  if (item === undefined) {
    return failure('prefer_invalid', `The Prefer header asks for what is unknown: ${quote}`)
  }
  return failure(
    'prefer_invalid',
    `The preference ${name} takes ${
      item.anyOf.map(({ const: value }) => value === asked ? 'no value' : value).join(' or ')
    }, not: ${quote}`
  )
}

const MAX_QUOTE = 60

/**
 * A part of a header that may be shown: bounded, without what a terminal or a log would act upon.
 */
function printable (text: string): string {
  const shown = text.trim().replace(/[^ -~]/g, '?')
  return shown.length > MAX_QUOTE ? `${shown.slice(0, MAX_QUOTE)}…` : shown
}

export default fp(prefer, { name: 'prefer', fastify: '5.x', dependencies: ['errors'] })
