/**
 * Caches the text of statements by their shape: the steps that build the text. The same shape
 * returns the same string object. A new string of two kilobytes per request would be copied and
 * hashed at each lookup, several times per statement.
 */

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
/** About 10 MB. Then the cache is cleared. */
const MAX_NODES = 50_000

let root: TreeNode = createNode()
let nodes = 0

/** Returns the text of a shape. */
export function textOf (shape: readonly Step[]): string {
  if (shape.length > MAX_STEPS) return write(shape)
  if (nodes > MAX_NODES) {
    root = createNode()
    nodes = 0
  }
  let node = root
  for (const step of shape) node = node.next.get(step) ?? addNode(node, step)
  node.text ??= write(shape)
  return node.text
}

function addNode ({ next }: TreeNode, step: Step): TreeNode {
  const node = createNode()
  next.set(step, node)
  nodes++
  return node
}

function createNode (): TreeNode {
  return { next: new Map(), text: undefined }
}

function write (shape: readonly Step[]): string {
  let position = 0
  const part = (): string => {
    const step = shape[position++] as Step
    if (typeof step === 'string') return step
    if (typeof step !== 'number') {
      return step.map((text, i) => (i === 0 ? '' : part()) + joinLines(text)).join('')
    }
    if (step > 0) return `$${step}`
    return Array.from({ length: Math.max(0, -2 * step - 1) }, part).join('')
  }
  return part()
}

/** A line break of the source code, with its indentation, becomes one space. */
function joinLines (text: string): string {
  return text.replaceAll(/\n\s*/g, ' ')
}
