/**
 * Writes the rows of an upload as lines of JSON, while they are sent.
 */
import { writeParameters } from './batch.ts'

type Rows = Iterable<unknown> | AsyncIterable<unknown>

/** Rows, or a function that returns them for each attempt. */
export type UploadRows = Rows | (() => Rows)

export interface UploadBody {
  readonly stream: ReadableStream<Uint8Array>
  /** Why the rows ended early: what their source has thrown, or an invalid row. */
  readonly failure: () => { readonly cause: unknown } | undefined
  /** Closes the source of the rows. Fetch does not do that in every case. */
  readonly end: () => void
}

/** Whether rows can be read again for another attempt. */
export function canReplay (rows: UploadRows): boolean {
  return typeof rows === 'function' || Array.isArray(rows)
}

/** `name`: that of the batch, for messages. */
export function createBody (name: string, rows: UploadRows): UploadBody {
  let failure: { readonly cause: unknown } | undefined
  let isOver = false
  const lines = encode(name, typeof rows === 'function' ? rows() : rows, () => isOver)
  const stream = new ReadableStream<Uint8Array>({
    async pull (controller) {
      try {
        const { done, value } = await lines.next()
        if (done === true) controller.close()
        else controller.enqueue(value)
      } catch (cause) {
        failure = { cause }
        controller.error(cause)
      }
    }
  })
  return {
    stream,
    failure: () => failure,
    end () {
      isOver = true
      Promise.allSettled([lines.return()])
    }
  }
}

/** As many characters are sent together. */
const PIECE = 65_536

async function * encode (
  name: string,
  rows: Rows,
  isOver: () => boolean
): AsyncGenerator<Uint8Array, void> {
  const encoder = new TextEncoder()
  let text = ''
  for await (const row of rows) {
    if (isOver()) return
    text += `${writeParameters(name, row)}\n`
    if (text.length < PIECE) continue
    yield encoder.encode(text)
    text = ''
  }
  if (text !== '') yield encoder.encode(text)
}
