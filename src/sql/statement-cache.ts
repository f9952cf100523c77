/**
 * Caches compiled statements, up to 8 MiB. The least recently used ones are dropped first.
 */
import { LRUCache } from 'lru-cache'
import type { CompiledStatement } from './statement/statement.ts'

type Statements = readonly CompiledStatement[]

interface Kept {
  readonly statements: Statements
  /** What is known about types. If one of them has changed, it is another object. */
  readonly types: readonly unknown[]
}

/** The statements of a plan or of a session, by what else changes them. */
export type Variants = Map<string, Kept>

const MAX_BYTES = 8 * 1024 * 1024

/** Bytes of a statement without its text and its parameters, and of a parameter; measured. */
const STATEMENT_BYTES = 400
const PARAMETER_BYTES = 100

export class StatementCache {
  /** Each entry with the function that removes it from its plan. */
  readonly #kept = new LRUCache<Kept, () => void>({
    maxSize: MAX_BYTES,
    sizeCalculation: (_, { statements }) => statementBytes(statements),
    dispose: remove => remove()
  })

  /** Returns the statements of a variant. Calls `create` if they are not known for these types. */
  find (
    variants: Variants,
    { variant, types }: { readonly variant: string, readonly types: readonly unknown[] },
    create: () => Statements
  ): Statements {
    const known = variants.get(variant)
    if (known?.types.every((type, i) => type === types[i]) === true) {
      this.#kept.get(known)
      return known.statements
    }
    if (known !== undefined) this.#kept.delete(known)
    const created = { types, statements: create() }
    this.#kept.set(created, () => variants.delete(variant))
    if (this.#kept.has(created)) variants.set(variant, created)
    return created.statements
  }

  /** The memory that the statements take. */
  get bytes (): number {
    return this.#kept.calculatedSize
  }
}

/** Returns the memory that statements take, at most. */
function statementBytes (statements: Statements): number {
  return statements.reduce((sum, { text, parameters }) => {
    const fixed = parameters.reduce<number>(
      (sum, value) => sum + (typeof value === 'string' ? 2 * value.length : 0),
      0
    )
    return sum + STATEMENT_BYTES + 2 * text.length + PARAMETER_BYTES * parameters.length + fixed
  }, STATEMENT_BYTES)
}
