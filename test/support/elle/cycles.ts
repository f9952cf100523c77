/**
 * Finds cycles of dependencies and names them after Adya's phenomena, as Elle does.
 */
import { findComponents } from './components.ts'
import type { Edge, EdgeKind, Graph } from './graph.ts'
import type { Transaction } from './history.ts'
import { describe, type Anomaly } from './versions.ts'

/** The edges that a cycle may have. */
interface Search {
  readonly kinds: readonly EdgeKind[]
  /** The edges after which an `rw` edge may follow. */
  readonly rwAfter: readonly EdgeKind[]
}

const data = ['ww', 'wr', 'rw'] as const
const all = [...data, 'rt'] as const

/**
 * From the most to the least severe: first the cycles that `read committed` excludes, then those
 * that `repeatable read` excludes, then all others (levels.ts). A cycle that a search finds is not
 * reported by the later ones. Therefore an allowed cycle never hides a forbidden one.
 */
const searches: readonly Search[] = [
  { kinds: ['ww'], rwAfter: [] },
  { kinds: ['ww', 'wr'], rwAfter: [] },
  { kinds: ['ww', 'rt'], rwAfter: [] },
  { kinds: ['ww', 'wr', 'rt'], rwAfter: [] },
  { kinds: all, rwAfter: ['rt'] },
  { kinds: data, rwAfter: ['ww', 'wr'] },
  { kinds: all, rwAfter: ['ww', 'wr', 'rt'] },
  { kinds: data, rwAfter: data },
  { kinds: all, rwAfter: all }
]

/**
 * A transaction and the kind of the edge by which a walk arrived there. With these as nodes, the
 * components are those of the walks that a search allows.
 */
type State = number

const toState = (node: number, kind: EdgeKind): State => node * all.length + all.indexOf(kind)
const nodeOf = (state: State): number => Math.floor(state / all.length)
const kindOf = (state: State): EdgeKind => all[state % all.length] as EdgeKind

/** How many walks of a component are compared. */
const CANDIDATES = 50

/** Returns one cycle of each component of the graph, the most severe one. */
export function findCycles (graph: Graph): readonly Anomaly[] {
  const reported = new Set<number>()
  return searches.flatMap(search => {
    const successors = (state: State): readonly State[] => follow(graph, search, state)
    const components = findComponents(graph.nodes.length * all.length, successors)
    return components.flatMap(component => {
      if ([...component].some(state => reported.has(nodeOf(state)))) return []
      const cycle = chooseCycle(component, successors)
      for (const state of cycle) reported.add(nodeOf(state))
      return [{ type: nameCycle(cycle.map(kindOf)), text: render(graph, cycle) }]
    })
  })
}

function follow (
  { edges }: Graph,
  { kinds, rwAfter }: Search,
  state: State
): readonly State[] {
  const isAllowed = ({ kind }: Edge): boolean =>
    kinds.includes(kind) && (kind !== 'rw' || rwAfter.includes(kindOf(state)))
  return (edges[nodeOf(state)] ?? []).filter(isAllowed).map(({ to, kind }) => toState(to, kind))
}

type Successors = (state: State) => readonly State[]

/** Returns the states of a short cycle, with as few `rw` edges as possible. */
function chooseCycle (component: ReadonlySet<State>, successors: Successors): readonly State[] {
  const within: Successors = state => successors(state).filter(next => component.has(next))
  const starts = [...component].filter(state => kindOf(state) === 'rw').slice(0, CANDIDATES)
  const single = starts.values().map(start =>
    findWalk(start, state =>
      within(state).filter(next => next === start || kindOf(next) !== 'rw'))
  ).find(walk => walk !== undefined)
  const [first] = starts.length > 0 ? starts : component
  return single ?? findWalk(first as State, within) ?? []
}

/** Returns the shortest walk from a state to itself, or undefined if no walk exists. */
function findWalk (start: State, successors: Successors): readonly State[] | undefined {
  const previous = new Map<State, State>()
  let border: readonly State[] = [start]
  while (border.length > 0 && !previous.has(start)) {
    const reached: State[] = []
    for (const state of border) {
      for (const next of successors(state)) {
        if (previous.has(next)) continue
        previous.set(next, state)
        reached.push(next)
      }
    }
    border = reached
  }
  if (!previous.has(start)) return undefined
  const walk = [start]
  for (let at = previous.get(start); at !== start; at = previous.get(at as State)) {
    walk.unshift(at as State)
  }
  return walk
}

/** Names a cycle by its edges. A stale read is one of data that was replaced before it started. */
function nameCycle (kinds: readonly EdgeKind[]): string {
  const before = kinds.flatMap((kind, i) => kind === 'rw' ? [kinds.at(i - 1)] : [])
  const isRealTime = kinds.includes('rt')
  if (isRealTime && before.length > 0 && before.every(kind => kind === 'rt')) return 'stale-read'
  const name = before.length === 0
    ? kinds.includes('wr') ? 'G1c' : 'G0'
    : before.length === 1
      ? 'G-single'
      : before.includes('rw') ? 'G2-item' : 'G-nonadjacent'
  return isRealTime ? `${name}-realtime` : name
}

/** Returns the cycle as text: `T1 … -rw-> T2 … -ww-> T1`. */
function render ({ nodes }: Graph, cycle: readonly State[]): string {
  const [first, ...others] = cycle.map(state => ({
    kind: kindOf(state),
    node: nodes[nodeOf(state)] as Transaction
  }))
  if (first === undefined) return ''
  return [
    describe(first.node),
    ...others.map(({ kind, node }) => `-${kind}-> ${describe(node)}`),
    `-${first.kind}-> T${first.node.invoked}`
  ].join(' ')
}
