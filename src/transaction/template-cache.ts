/**
 * Keeps the templates of statements. Those of a shape are compiled once, with placeholders for its
 * values and for the session, and filled for each batch.
 */
import type { Plan } from '../plan/nodes.ts'
import { textPlaceholder, type Values } from '../plan/shape.ts'
import type { CompileOptions } from '../sql/compile.ts'
import type { SessionIdentity } from '../sql/session-checks.ts'

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

export class TemplateCache<Templates> {
  readonly #plans = new WeakMap<Plan, Map<string, Kept<Templates>>>()

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
    if (known?.types.every((type, i) => type === types[i]) === true) return known.templates
    const templates = create()
    variants.set(variant, { types, templates })
    return templates
  }
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
