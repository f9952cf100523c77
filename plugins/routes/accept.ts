/**
 * Content negotiation of responses: the header `Accept` (RFC 9110 §12.5.1). `negotiator` returns
 * the order of types without their weights, and prefers a type that is named to a wildcard of the
 * same weight.
 */

/** A quoted string; without an end, the rest of the text. Takes linear time. */
const QUOTED = /"(?:[^"\\]|\\.?)*(?:"|$)/g
const WEIGHT = /^q=(0(?:\.\d*)?|1(?:\.0*)?)$/

interface Range {
  readonly type: string
  readonly weight: number
}

/**
 * Returns a function that returns the weight of a media type, from 0 (not accepted) to 1. The range
 * that names the type counts before those with wildcards. Parameters other than `q` are ignored. A
 * range with a malformed weight is ignored, too.
 */
export function readAccept (header: string): (type: string) => number {
  const ranges = header.replace(QUOTED, '').toLowerCase().split(',').map(readRange)
  return type => {
    for (const name of [type, `${type.split('/', 1)[0]}/*`, '*/*']) {
      const weights = ranges.filter(range => range.type === name && !Number.isNaN(range.weight))
      if (weights.length > 0) return Math.max(...weights.map(({ weight }) => weight))
    }
    return 0
  }
}

function readRange (text: string): Range {
  const [type = '', ...parameters] = text.split(';').map(part => part.trim())
  const weight = parameters.find(parameter => parameter.startsWith('q=')) ?? 'q=1'
  return { type, weight: Number(WEIGHT.exec(weight)?.[1]) }
}
