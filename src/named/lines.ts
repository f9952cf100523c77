/**
 * Divides bytes that arrive in chunks into lines. In UTF-8, no part of another character is a line
 * feed, so lines are found before they are decoded.
 */
const LINE_FEED = 0x0a

export class Lines {
  readonly #maxBytes: number
  /** Throws for a line of more than `maxBytes`. `before`: the lines before it in its chunk. */
  readonly #tooLong: (before: readonly Buffer[]) => never
  /** The parts of a line whose end has not arrived. */
  #parts: Buffer[] = []
  #length = 0

  constructor (maxBytes: number, tooLong: (before: readonly Buffer[]) => never) {
    this.#maxBytes = maxBytes
    this.#tooLong = tooLong
  }

  /** Returns the lines that end in a chunk, without their line feeds. */
  read (chunk: Buffer): readonly Buffer[] {
    const lines: Buffer[] = []
    let start = 0
    for (;;) {
      const end = chunk.indexOf(LINE_FEED, start)
      const part = chunk.subarray(start, end < 0 ? chunk.length : end)
      if (this.#length + part.length > this.#maxBytes) this.#tooLong(lines)
      if (end < 0) {
        this.#keep(part)
        return lines
      }
      lines.push(this.#join(part))
      start = end + 1
    }
  }

  /** Returns the last line, if it does not end with a line feed. */
  finish (): readonly Buffer[] {
    return this.#length === 0 ? [] : [this.#join(Buffer.alloc(0))]
  }

  #keep (part: Buffer): void {
    if (part.length === 0) return
    this.#parts.push(part)
    this.#length += part.length
  }

  #join (last: Buffer): Buffer {
    if (this.#parts.length === 0) return last
    const line = Buffer.concat([...this.#parts, last])
    this.#parts = []
    this.#length = 0
    return line
  }
}
