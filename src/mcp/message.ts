/**
 * Reads the body of `POST /mcp`: one JSON-RPC message. The arguments of a tool are kept apart,
 * because the SDK would round their numbers.
 */
import { failure } from '../errors/catalogue.ts'
import { isDeep, isObject, parseJson, type JsonObject } from '../json/parse.ts'

export interface Message {
  /** The message without the arguments of a tool, for the SDK, which checks it. */
  readonly envelope: JsonObject
  /** The arguments of a tool, with all digits; empty: the message has none. */
  readonly given: JsonObject
}

/** Maximum length of the JSON of a message without the arguments of a tool. */
const MAX_ENVELOPE = 65_536

/** Throws `body_invalid` for a body that is no JSON object, or larger or deeper than a message. */
export function readMessage (body: Buffer): Message {
  const message = parseJson(body)
  if (!isObject(message)) {
    throw failure(
      'body_invalid',
      'The body must be one JSON-RPC message. Arrays of messages are not supported.'
    )
  }
  if (isDeep(message)) throw failure('body_invalid', 'The message is nested too deeply.')
  const read = separate(message)
  if (body.length > MAX_ENVELOPE && JSON.stringify(read.envelope).length > MAX_ENVELOPE) {
    const message = `Without the arguments of a tool, a message has at most ${MAX_ENVELOPE} bytes.`
    throw failure('body_invalid', message)
  }
  return read
}

/** The SDK refuses arguments that are no object. */
function separate (message: JsonObject): Message {
  const { params } = message
  const given = isObject(params) ? params['arguments'] : undefined
  return isObject(given)
    ? { envelope: { ...message, params: { ...params as JsonObject, arguments: {} } }, given }
    : { envelope: message, given: {} }
}
