/**
 * Reads a stream of rows: newline-delimited JSON, whose last line says how it ended.
 */
import { readLastLine, toAttemptError, type Context } from './response.ts'
import { describe, send, type PreparedBatch } from './send.ts'

/** Sends a batch and yields its rows. Throws OneflightError. */
export async function * readRows (batch: PreparedBatch): AsyncGenerator<unknown, void> {
  const { body, headers, context } = await send(batch)
  let rows = 0
  let last: string | undefined
  for await (const line of readLines(body as ReadableStream<Uint8Array>, batch.signal, context)) {
    if (last !== undefined) {
      rows++
      yield batch.parse(last)
    }
    last = line
  }
  readLastLine(last, { rows, headers, context })
}

/** Yields the lines of a body. When the loop ends early, the response is closed. */
async function * readLines (
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal | undefined,
  context: Context
): AsyncGenerator<string, void> {
  const decoder = new TextDecoder()
  const reader = body.getReader()
  const abort = (): void => {
    reader.cancel(signal?.reason).catch(() => {})
  }
  signal?.addEventListener('abort', abort)
  let rest = ''
  try {
    for (;;) {
      throwIfAborted(signal, context)
      const { done, value } = await read(reader, context)
      throwIfAborted(signal, context)
      if (done) break
      const lines = (rest + decoder.decode(value, { stream: true })).split('\n')
      rest = lines.pop() as string
      yield * lines
    }
  } finally {
    signal?.removeEventListener('abort', abort)
    reader.cancel().catch(() => {})
  }
}

type Reader = ReadableStreamDefaultReader<Uint8Array>

function read (reader: Reader, context: Context): ReturnType<Reader['read']> {
  return reader.read().catch((cause: unknown) => {
    throw toAttemptError({
      code: 'network_error',
      message: `The stream was cut: ${describe(cause)}.`,
      cause,
      retryable: true,
      sent: true
    }, context)
  })
}

function throwIfAborted (signal: AbortSignal | undefined, context: Context): void {
  if (signal?.aborted !== true) return
  throw toAttemptError({
    code: 'aborted',
    message: 'The batch was aborted.',
    cause: signal.reason,
    sent: true
  }, context)
}
