/**
 * Caches the text of statements by their shape: the steps that build the text. The same shape
 * returns the same string object. A new string of two kilobytes per request would be copied and
 * hashed at each lookup, several times per statement.
 */
import { LRUCache } from 'lru-cache'

/**
 * A step of a shape, in depth-first order:
 * - the texts of a template; a part follows for each gap between them
 * - a text
 * - a positive number n: the parameter `$n`
 * - a number -n or 0: a list of n parts; the separator, another part, follows each but the last
 */
export type Step = readonly string[] | string | number

/** A node in the tree of all shapes. `text` is set if a shape ends here. */
interface TreeNode {
  readonly next: Map<Step, TreeNode>
  text: string | undefined
}

/** Longer shapes (a filter with hundreds of conditions) rarely recur. */
const MAX_STEPS = 500

/** Longer texts rarely recur either: they are not kept, and not prepared. */
export const MAX_KEPT_LENGTH = 8192

/** Then the tree is cleared. */
const MAX_TREE_BYTES = 8 * 1024 * 1024

/** A node, with its place in the map of its parent. */
const NODE_BYTES = 200

let root: TreeNode = createNode()
let treeBytes = 0

/** Returns the text of a shape. */
export function textOf (shape: readonly Step[]): string {
  if (shape.length > MAX_STEPS) return writeText(shape)
  let node = root
  for (const step of shape) {
    const next = node.next.get(step)
    if (next === undefined) return keepText(shape)
    node = next
  }
  // No shape is the beginning of another one.
  return node.text as string
}

function keepText (shape: readonly Step[]): string {
  const text = writeText(shape)
  if (text.length > MAX_KEPT_LENGTH) return text
  if (treeBytes > MAX_TREE_BYTES) {
    root = createNode()
    treeBytes = 0
  }
  let node = root
  for (const step of shape) node = node.next.get(step) ?? addNode(node, step)
  node.text = text
  treeBytes += bytesOf(text)
  return text
}

function addNode ({ next }: TreeNode, step: Step): TreeNode {
  const node = createNode()
  next.set(step, node)
  treeBytes += NODE_BYTES + (typeof step === 'string' ? bytesOf(step) : 0)
  return node
}

function createNode (): TreeNode {
  return { next: new Map(), text: undefined }
}

/** Returns the memory that a text takes, at most. */
export function bytesOf (text: string): number {
  return 2 * text.length
}

/** An entry of a set of texts, without its text. */
const ENTRY_BYTES = 100

/** Texts of statements, at most `maxBytes` of them. Those that were used last are kept. */
export class RecentTexts {
  readonly #texts: LRUCache<string, true>

  constructor (maxBytes: number) {
    this.#texts = new LRUCache<string, true>({
      maxSize: maxBytes,
      maxEntrySize: ENTRY_BYTES + 2 * MAX_KEPT_LENGTH,
      sizeCalculation: (_, text) => ENTRY_BYTES + bytesOf(text)
    })
  }

  add (text: string): void {
    this.#texts.set(text, true)
  }

  has (text: string): boolean {
    return this.#texts.has(text)
  }

  /** The memory that the texts take. */
  get bytes (): number {
    return this.#texts.calculatedSize
  }
}

/** Writes a text that is not kept. */
export function writeText (shape: readonly Step[]): string {
  let position = 0
  let text = ''
  const part = (): void => {
    const step = shape[position++] as Step
    if (typeof step === 'string') text += step
    else if (typeof step !== 'number') {
      const texts = joinedTexts.get(step) ?? joinLines(step)
      text += texts[0] as string
      for (let i = 1; i < texts.length; i++) {
        part()
        text += texts[i] as string
      }
    } else if (step > 0) text += `$${step}`
    else for (let i = -2 * step - 1; i > 0; i--) part()
  }
  part()
  return text
}

/** The texts of templates in one line. The source code has a limited number of templates. */
const joinedTexts = new WeakMap<readonly string[], readonly string[]>()

/** A line break of the source code, with its indentation, becomes one space. */
function joinLines (texts: readonly string[]): readonly string[] {
  const joined = texts.map(text => text.replaceAll(/\n\s*/g, ' '))
  joinedTexts.set(texts, joined)
  return joined
}
