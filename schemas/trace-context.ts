/**
 * Reads and writes the `traceparent` header of W3C Trace Context:
 * https://www.w3.org/TR/trace-context/#traceparent-header
 *
 * `parseTraceParent` of @opentelemetry/core 2.12 is not used. It accepts a no-break space before
 * and after the value, and its import adds 28 ms to every start, even with tracing off.
 */

/** A span in a trace, in lower-case hexadecimal digits. */
export interface Trace {
  /** 32 digits, not all 0. */
  readonly traceId: string
  /** 16 digits, not all 0. */
  readonly spanId: string
  /** 2 digits; the last bit is set when the trace is sampled. */
  readonly flags: string
}

// A later version may append fields to the flags. Version ff is invalid.
const pattern =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** Returns undefined for a missing or invalid header, which the standard requires to ignore. */
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
