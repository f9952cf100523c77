/**
 * Positions and source text of values in JSON text, by jsonc-parser. The parser recurses: text
 * nested deeper than about 4000 levels is not parsed.
 */
import { findNodeAtLocation, parseTree, visit, type Node } from 'jsonc-parser'

export type JsonNode = Node

/** Line and column, both from 1; columns count characters. */
export interface Position {
  readonly line: number
  readonly column: number
}

/** Returns the root of the values. Undefined: the text is empty, or nested too deeply. */
export function parseJsonText (text: string): JsonNode | undefined {
  try {
    return parseTree(text)
  } catch {
    // RangeError: maximum call stack size exceeded
    return undefined
  }
}

/**
 * The offset of the first error in strict JSON: without comments and trailing commas. Undefined:
 * the text has none, or is nested too deeply.
 */
export function findSyntaxError (text: string): number | undefined {
  let first: number | undefined
  try {
    visit(text, {
      onError: (_code, offset) => {
        first ??= offset
      }
    }, { disallowComments: true })
  } catch {
    // RangeError: maximum call stack size exceeded
  }
  return first
}

/** Offset of the value at `path`, or of its closest existing parent. Members start at their key. */
export function offsetOf (root: JsonNode, path: ReadonlyArray<string | number>): number {
  const node = findNodeAtLocation(root, [...path])
  if (node === undefined) return offsetOf(root, path.slice(0, -1))
  return node.parent?.type === 'property' ? node.parent.offset : node.offset
}

export function positionOf (text: string, offset: number): Position {
  const lines = text.slice(0, offset).split('\n')
  return { line: lines.length, column: [...lines.at(-1) as string].length + 1 }
}

export function membersOf (object: JsonNode): ReadonlyArray<readonly [key: string, JsonNode]> {
  return childrenOf(object).map(({ children }) => {
    const [key, value] = children as [JsonNode, JsonNode]
    return [key.value as string, value]
  })
}

/** Elements of an array, properties of an object; empty for any other value. */
export function childrenOf ({ children = [] }: JsonNode): readonly JsonNode[] {
  return children
}

/** The text of a value. Keeps the spelling of numbers. */
export function sourceOf (text: string, { offset, length }: JsonNode): string {
  return text.slice(offset, offset + length)
}
