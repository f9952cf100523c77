/**
 * Names in the OpenAPI document from which generators make identifiers: ids of operations and names
 * of components. Generators drop hyphens and underscores and change letter case, so names that
 * differ only in these would collide in the generated code.
 */
import { createHash } from 'node:crypto'

/** What generators keep of a name, without letter case. */
function significantOf (name: string): string {
  return name.replace(/[^A-Za-z0-9]/g, '').toLowerCase()
}

/**
 * Returns ids of operations for the names of batches: `take-job` becomes `takeJob`. Names that
 * would collide, with each other or with one of `taken`, get a part of their hash. So an id never
 * passes from one batch to another when a batch is added.
 */
export function operationIds (
  names: readonly string[],
  taken: readonly string[]
): ReadonlyMap<string, string> {
  const ids = new Map(names.map(name => [name, camelCase(name)]))
  const groups = Map.groupBy([...ids.values(), ...taken], significantOf)
  return new Map([...ids].map(([name, id]) => {
    const collides = (groups.get(significantOf(id)) as readonly string[]).length > 1
    const hash = createHash('sha256').update(name).digest('hex').slice(0, 8)
    return [name, collides ? `${id}_${hash}` : id]
  }))
}

/** An identifier does not begin with a digit. */
function camelCase (name: string): string {
  return name.replace(/^(?=[0-9])/, 'batch').split(/[-_]/)
    .map((word, i) => i === 0 ? word : word.slice(0, 1).toUpperCase() + word.slice(1)).join('')
}

/**
 * Returns a function that names components: with a name that begins with `text`, of characters that
 * OpenAPI allows. A name that generators would not tell from an earlier one gets a number.
 */
export function nameComponents (earlier: readonly string[]): (text: string) => string {
  const taken = new Set(earlier.map(significantOf))
  return text => {
    const base = text.replace(/[^A-Za-z0-9]+/g, '_')
    let name = base
    for (let i = 2; taken.has(significantOf(name)); i++) name = `${base}_${i}`
    taken.add(significantOf(name))
    return name
  }
}
