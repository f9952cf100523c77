/**
 * W3C Trace Context: the header `traceparent`
 * (https://www.w3.org/TR/trace-context/#traceparent-header), in and out.
 */

/** A place in a trace: hexadecimal digits, in lower case. */
export interface Trace {
  /** 32 digits, not all 0. */
  readonly traceId: string
  /** 16 digits, not all 0: the span that is meant. */
  readonly spanId: string
  /** 2 digits; the last bit says that the trace is recorded. */
  readonly flags: string
}

// A later version may have more behind the flags; version ff is forbidden.
const pattern =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/**
 * Reads the header; undefined when there is none or it is not understood, which then means nothing,
 * as the standard has it.
 */
export function readTraceparent (text: string | readonly string[] | undefined): Trace | undefined {
  const [, version, traceId, spanId, flags, more] = typeof text === 'string'
    ? pattern.exec(text) ?? []
    : []
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
  return version === '00' && more !== undefined ? undefined : { traceId, spanId, flags }
}

/** The value of the header. */
export function renderTraceparent ({ traceId, spanId, flags }: Trace): string {
  return `00-${traceId}-${spanId}-${flags}`
}
