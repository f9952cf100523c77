/**
 * Reads the JSON Schema of parameters before Ajv compiles it. Finds, with their positions, issues
 * that Ajv does not report or not clearly, and writes each reference as a path from the root.
 */
import { suggest } from '../errors/suggestion.ts'
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import type { Path } from '../plan/context.ts'
import { compilePattern } from './pattern.ts'
import {
  keyOf,
  keywords,
  listParts,
  mapReferences,
  readStep,
  type Part,
  type Resource,
  type PathIssue,
  childrenOf
} from './schema-parts.ts'

export type ReadSchema =
  | { readonly schema: JsonObject }
  | { readonly issues: readonly PathIssue[] }

/**
 * Returns the schema without `$id`, or its issues. It must be valid by the meta-schema: the values
 * of known keywords have the right types.
 */
export function readSchema (root: JsonObject): ReadSchema {
  const parts = listParts(root)
  const words = parts.flatMap(findWordIssues)
  if (words.length > 0) return { issues: words }
  const { targets, issues } = resolveReferences(parts)
  if (issues.length > 0) return { issues }
  const endless = findEndless(parts, targets)
  if (endless !== undefined) return { issues: [endless] }
  const writePath = (reference: string, path: Path): string => {
    const target = targets.get(keyOf(path))
    return target === undefined ? reference : writePointer(target.path)
  }
  return { schema: mapReferences(root, writePath) as JsonObject }
}

function findWordIssues ({ schema, path }: Part): readonly PathIssue[] {
  if (!isObject(schema)) return []
  return Object.entries(schema).flatMap(([word, value]) => {
    const message = keywords.has(word)
      ? findPatternIssue(word, value) ?? findMemberIssue(word, value)
      : describeUnknown(word)
    return message === undefined ? [] : [{ path: [...path, word], message }]
  })
}

const USE_PATHS = 'A reference is a path, such as {"$ref": "#/$defs/name"}.'

function describeUnknown (word: string): string {
  if (word.startsWith('$')) {
    const isReference = /ref|anchor/i.test(word)
    return `"${word}" is not supported.${isReference ? ` ${USE_PATHS}` : ''}`
  }
  const near = suggest(word, [...keywords.keys()])
  return `Unknown keyword "${word}".${near === undefined ? '' : ` Did you mean "${near}"?`}`
}

/** A member that Ajv skips, so its value would not be checked. */
const UNCHECKED = '__proto__'

function findMemberIssue (word: string, value: Json): string | undefined {
  if (word !== 'properties' || !Object.hasOwn(value as JsonObject, UNCHECKED)) return undefined
  return `A member cannot have the name "${UNCHECKED}".`
}

function findPatternIssue (word: string, value: Json): string | undefined {
  const patterns = word === 'pattern'
    ? [value as string]
    : word === 'patternProperties' ? Object.keys(value as JsonObject) : []
  try {
    for (const pattern of patterns) compilePattern(pattern)
    return undefined
  } catch (error) {
    return `${(error as Error).message}.`
  }
}

interface References {
  /** The parts that references name, by the key of the part that refers. */
  readonly targets: ReadonlyMap<string, Part>
  readonly issues: readonly PathIssue[]
}

function resolveReferences (parts: readonly Part[]): References {
  const known = new Map(parts.map(part => [keyOf(part.path), part]))
  const resources = new Map<string, Resource>()
  const targets = new Map<string, Part>()
  const issues: PathIssue[] = []
  for (const { resource, path } of parts) {
    if (resource.path !== path || resource.id === undefined) continue
    const uri = readUri(resource.id)
    const message = uri === undefined
      ? '"$id" must be an absolute URI.'
      : resources.has(uri) ? 'Another part of the schema has the same "$id".' : undefined
    if (message !== undefined) issues.push({ path: [...path, '$id'], message })
    else resources.set(uri as string, resource)
  }
  for (const { schema, path, resource } of parts) {
    const reference = isObject(schema) ? schema['$ref'] : undefined
    if (typeof reference !== 'string') continue
    const target = findTarget(reference, resource, resources)
    const part = target && known.get(keyOf(target))
    const message = `"${reference}" does not name a schema in "params". ${USE_PATHS}`
    if (part !== undefined) targets.set(keyOf(path), part)
    else issues.push({ path: [...path, '$ref'], message })
  }
  return { targets, issues }
}

/** A URI without its fragment; undefined: it is not absolute. */
function readUri (text: string, base?: string): string | undefined {
  return URL.parse(text, base)?.href.split('#', 1)[0]
}

/** Returns the path that a reference names. It need not exist. */
function findTarget (
  reference: string,
  own: Resource,
  resources: ReadonlyMap<string, Resource>
): Path | undefined {
  const start = `${reference}#`.indexOf('#')
  const resource = start === 0
    ? own
    : resources.get(readUri(reference.slice(0, start), own.id) ?? '')
  const steps = readPointer(reference.slice(start + 1))
  return resource && steps && [...resource.path, ...steps]
}

/** Reads a JSON Pointer of a URI. Returns undefined if the text is not a pointer. */
function readPointer (text: string): readonly string[] | undefined {
  if (text === '') return []
  if (!text.startsWith('/')) return undefined
  try {
    return decodeURIComponent(text).slice(1).split('/').map(readStep)
  } catch {
    return undefined
  }
}

function writePointer (path: Path): string {
  const steps = path.map(step =>
    encodeURI(String(step).replaceAll('~', '~0').replaceAll('/', '~1')).replaceAll('#', '%23'))
  return ['#', ...steps].join('/')
}

// Finds schemas that Ajv compiles, but that no request could be checked with: those that apply to
// one value without end, or too often.

/**
 * Maximum number of schemas that apply to one value, and of schemas in a chain, in which each one
 * applies the next. The check of a value of depth 100 overflows the stack at a chain of about 60.
 */
const MAX_APPLIED = 10_000
const MAX_CHAIN = 20

interface Extent {
  readonly applied: number
  readonly chain: number
}

/** `targets`: the parts that references name, by the key of the part that refers. */
function findEndless (
  parts: readonly Part[],
  targets: ReadonlyMap<string, Part>
): PathIssue | undefined {
  const search = new Search(targets)
  for (const { schema, path } of parts) search.measure({ schema, path, via: path })
  return search.issue
}

interface Place extends Pick<Part, 'schema' | 'path'> {
  /** The last reference on the way to it. */
  readonly via: Path
}

class Search {
  issue: PathIssue | undefined
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
    if (isOpen) this.issue ??= { path: via, message: 'The reference leads back to itself.' }
    if (this.#open.size >= MAX_CHAIN) this.#refuse(path)
    if (this.issue !== undefined) return { applied: 0, chain: 0 }
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
    this.issue ??= { path, message: 'Too many schemas apply to the same value.' }
  }
}
