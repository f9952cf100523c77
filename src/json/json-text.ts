/**
 * Positions and source text of values in JSON text, by jsonc-parser. The parser recurses: text
 * nested deeper than about 4000 levels is not parsed.
 */
import {
  findNodeAtLocation,
  parseTree,
  visit,
  type Node,
  type ParseError
} from 'jsonc-parser'

export type JsonNode = Node

/** Line and column, both from 1; columns count characters. */
export interface Position {
  readonly line: number
  readonly column: number
}

interface JsonTree {
  /** Undefined when the text is empty or nested too deep. */
  readonly root: JsonNode | undefined
  /** Offset of the first syntax error. */
  readonly error: number | undefined
}

/** Parses strict JSON: no comments, no trailing commas. */
export function parseJsonText (text: string): JsonTree {
  const errors: ParseError[] = []
  try {
    return { root: parseTree(text, errors, { disallowComments: true }), error: errors[0]?.offset }
  } catch {
    // RangeError: maximum call stack size exceeded
    return { root: undefined, error: undefined }
  }
}

/** The offset of the first syntax error. Undefined: the text has none, or is nested too deeply. */
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
