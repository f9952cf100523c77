/**
 * Finds schemas that Ajv compiles, but that no request could be checked with: those that apply to
 * one value without end, or too often.
 */
import { childrenOf, keyOf, type Part, type Path, type SchemaFault } from './schema-parts.ts'

/**
 * How many schemas may apply to one value, and how many of them one because of the other. The check
 * of a value of depth 100 overflows the stack at a chain of about 60.
 */
const MAX_APPLIED = 10_000
const MAX_CHAIN = 20

interface Extent {
  readonly applied: number
  readonly chain: number
}

/** `targets`: the parts that references name, by the key of the part that refers. */
export function findEndless (
  parts: readonly Part[],
  targets: ReadonlyMap<string, Part>
): SchemaFault | undefined {
  const search = new Search(targets)
  for (const { schema, path } of parts) search.measure({ schema, path, via: path })
  return search.fault
}

interface Place extends Pick<Part, 'schema' | 'path'> {
  /** The last reference on the way to it. */
  readonly via: Path
}

class Search {
  fault: SchemaFault | undefined
  readonly #targets: ReadonlyMap<string, Part>
  readonly #extents = new Map<string, Extent>()
  /** The parts that are being measured. */
  readonly #open = new Set<string>()

  constructor (targets: ReadonlyMap<string, Part>) {
    this.#targets = targets
  }

  measure (place: Place): Extent {
    const { path, via } = place
    const key = keyOf(path)
    const known = this.#extents.get(key)
    if (known !== undefined) return known
    const isOpen = this.#open.has(key)
    if (isOpen) this.fault ??= { path: via, message: 'The reference leads back to itself.' }
    if (this.#open.size >= MAX_CHAIN) this.#refuse(path)
    if (this.fault !== undefined) return { applied: 0, chain: 0 }
    this.#open.add(key)
    const inner = this.#appliedBy(place, key).map(next => this.measure(next))
    this.#open.delete(key)
    const extent = {
      applied: inner.reduce((sum, { applied }) => sum + applied, 1),
      chain: Math.max(0, ...inner.map(({ chain }) => chain)) + 1
    }
    if (extent.applied > MAX_APPLIED || extent.chain > MAX_CHAIN) this.#refuse(path)
    this.#extents.set(key, extent)
    return extent
  }

  /** What a schema applies to its own value. */
  #appliedBy ({ schema, path, via }: Place, key: string): readonly Place[] {
    const target = this.#targets.get(key)
    return [
      ...target === undefined ? [] : [{ ...target, via: [...path, '$ref'] }],
      ...childrenOf(schema).filter(({ sameValue }) => sameValue)
        .map(({ steps, child }) => ({ schema: child, path: [...path, ...steps], via }))
    ]
  }

  #refuse (path: Path): void {
    this.fault ??= { path, message: 'Too many schemas apply to the same value.' }
  }
}
