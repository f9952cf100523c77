/**
 * Tarjan's algorithm for strongly connected components, without recursion: a history has too many
 * transactions for the stack.
 */

/**
 * Returns the strongly connected components with more than one node. Nodes are the numbers from 0
 * to `size` - 1.
 */
export function findComponents (
  size: number,
  successors: (node: number) => readonly number[]
): ReadonlyArray<ReadonlySet<number>> {
  const indexes = new Int32Array(size).fill(-1)
  const lows = new Int32Array(size)
  const onStack = new Uint8Array(size)
  const stack: number[] = []
  const components: Array<ReadonlySet<number>> = []
  let count = 0
  const enter = (node: number): { readonly node: number, readonly rest: number[] } => {
    indexes[node] = lows[node] = count++
    stack.push(node)
    onStack[node] = 1
    return { node, rest: [...successors(node)] }
  }
  const lower = (node: number, value: number): void => {
    lows[node] = Math.min(lows[node] as number, value)
  }
  const leave = (node: number): void => {
    if (lows[node] !== indexes[node]) return
    const members = stack.splice(stack.lastIndexOf(node))
    for (const member of members) onStack[member] = 0
    if (members.length > 1) components.push(new Set(members))
  }
  for (let root = 0; root < size; root++) {
    if (indexes[root] !== -1) continue
    const path = [enter(root)]
    for (let current = path.at(-1); current !== undefined; current = path.at(-1)) {
      const next = current.rest.pop()
      if (next === undefined) {
        path.pop()
        leave(current.node)
        const parent = path.at(-1)
        if (parent !== undefined) lower(parent.node, lows[current.node] as number)
      } else if (indexes[next] === -1) path.push(enter(next))
      else if (onStack[next] === 1) lower(current.node, indexes[next] as number)
    }
  }
  return components
}
