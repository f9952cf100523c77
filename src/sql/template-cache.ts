/**
 * Caches the templates of statements, up to 8 MiB. The least recently used ones are dropped first.
 */
import { LRUCache } from 'lru-cache'
import { bytesOf } from '../fragment/recent-texts.ts'
import type { Template } from './statement/statement.ts'

/** The templates of a plan. Undefined: the text of the statement depends on the values. */
type Templates = ReadonlyArray<Template | undefined>

interface Kept {
  readonly templates: Templates
  /** What is known about types. If one of them is read again, it is another object. */
  readonly types: readonly unknown[]
}

/** The templates of a plan, by what else changes its statements. */
export type Variants = Map<string, Kept>

const MAX_BYTES = 8 * 1024 * 1024

/** Bytes of a template without its text and its parameters, and of a parameter; measured. */
const TEMPLATE_BYTES = 400
const PARAMETER_BYTES = 100

export class TemplateCache {
  /** Each entry with the function that removes it from its plan. */
  readonly #kept = new LRUCache<Kept, () => void>({
    maxSize: MAX_BYTES,
    sizeCalculation: (_, { templates }) => templateBytes(templates),
    dispose: remove => remove()
  })

  /** Returns the templates of a variant. Calls `create` if they are not known for these types. */
  find (
    variants: Variants,
    { variant, types }: { readonly variant: string, readonly types: readonly unknown[] },
    create: () => Templates
  ): Templates {
    const known = variants.get(variant)
    if (known?.types.every((type, i) => type === types[i]) === true) {
      this.#kept.get(known)
      return known.templates
    }
    if (known !== undefined) this.#kept.delete(known)
    const created = { types, templates: create() }
    this.#kept.set(created, () => variants.delete(variant))
    if (this.#kept.has(created)) variants.set(variant, created)
    return created.templates
  }

  /** The memory that the templates take. */
  get bytes (): number {
    return this.#kept.calculatedSize
  }
}

/** Returns the memory that templates take, at most. */
export function templateBytes (templates: Templates): number {
  return templates.reduce((sum, template) => {
    if (template === undefined) return sum
    const { statement: { text }, parameters } = template
    const fixed = parameters.reduce<number>(
      (sum, value) => sum + (typeof value === 'string' ? bytesOf(value) : 0),
      0
    )
    return sum + TEMPLATE_BYTES + bytesOf(text) + PARAMETER_BYTES * parameters.length + fixed
  }, TEMPLATE_BYTES)
}
