/**
 * Keeps the templates of statements. Those of a shape are compiled once, with placeholders for its
 * values and for the session, and filled for each batch.
 */
import { LRUCache } from 'lru-cache'
import type { Plan } from '../plan/nodes.ts'
import { textPlaceholder, type Values } from '../plan/shape.ts'
import type { CompileOptions } from './compile.ts'
import type { Statement } from './statement/statement.ts'
import type { SessionIdentity } from './statement/session-checks.ts'
import type { Template } from './statement/template.ts'
import { bytesOf } from '../fragment/text-cache.ts'

export interface DatabaseNumber {
  /** Tells databases apart, whose types can have different names and OIDs. */
  readonly database?: number | undefined
}

/** What changes the statements of a plan. */
interface Variant
  extends Pick<CompileOptions, 'minimal' | 'keep' | 'distributed'>, DatabaseNumber {
  /** What is known about types. If one of them is read again, it is another object. */
  readonly types: readonly unknown[]
}

interface Kept<Templates> extends Pick<Variant, 'types'> {
  readonly templates: Templates
}

type Variants<Templates> = Map<string, Kept<Templates>>

/** Where templates are kept. */
interface Place<Templates> {
  readonly variants: Variants<Templates>
  readonly variant: string
}

/** Of the templates of all plans. */
const MAX_BYTES = 8 * 1024 * 1024

/** A template without its text and its parameters, and a parameter; measured. */
const TEMPLATE_BYTES = 400
const PARAMETER_BYTES = 100

export class TemplateCache<Templates> {
  readonly #plans = new WeakMap<Plan, Variants<Templates>>()
  readonly #places: LRUCache<Kept<Templates>, Place<Templates>>

  constructor (statementsOf: (templates: Templates) => ReadonlyArray<AnyTemplate | undefined>) {
    this.#places = new LRUCache({
      maxSize: MAX_BYTES,
      sizeCalculation: (_, { templates }) => templateBytes(statementsOf(templates)),
      dispose: ({ variants, variant }) => variants.delete(variant)
    })
  }

  /** Returns the templates of a plan. Calls `create` only if they are not known. */
  find (
    plan: Plan,
    { minimal, keep, distributed, database, types }: Variant,
    create: () => Templates
  ): Templates {
    const variants = this.#plans.get(plan) ?? new Map<string, Kept<Templates>>()
    this.#plans.set(plan, variants)
    const variant = JSON.stringify([minimal, keep, distributed, database])
    const known = variants.get(variant)
    if (known !== undefined) {
      const isCurrent = known.types.every((type, i) => type === types[i])
      if (isCurrent) {
        this.#places.get(known)
        return known.templates
      }
      this.#places.delete(known)
    }
    const created = { types, templates: create() }
    this.#places.set(created, { variants, variant })
    if (this.#places.has(created)) variants.set(variant, created)
    return created.templates
  }

  /** The memory that the templates take. */
  get bytes (): number {
    return this.#places.calculatedSize
  }
}

type AnyTemplate = Template<Statement>

/** Returns the memory that templates take, at most. */
export function templateBytes (templates: ReadonlyArray<AnyTemplate | undefined>): number {
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

/** The placeholders of a session, which follow those of this many values. */
export function sessionPlaceholders (values: number): SessionIdentity {
  return { role: textPlaceholder(values), claims: textPlaceholder(values + 1) }
}

/** The values of all placeholders of a batch. */
export function withSession (
  values: Values,
  { role, claims }: SessionIdentity
): Values {
  return [...values, role, claims]
}
