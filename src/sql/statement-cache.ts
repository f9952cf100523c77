/**
 * Caches compiled statements, up to 8 MiB. The least recently used ones are dropped first.
 */
import { LRUCache } from 'lru-cache'
import type { SeparatePlan } from '../plan/separate.ts'
import type { CompiledStatement } from './statement/statement.ts'

/** What is compiled of a plan or of a session. */
export interface Compiled {
  readonly statements: readonly CompiledStatement[]
  /** The division of the plan, if its operations are sent one by one. */
  readonly separate?: SeparatePlan
}

interface Kept {
  readonly compiled: Compiled
  /** What is known about types. If one of them has changed, it is another object. */
  readonly types: readonly unknown[]
}

interface Key extends Pick<Kept, 'types'> {
  /** The plan, or the connection of the session. */
  readonly owner: object
  /** What else changes the statements. */
  readonly variant: string
}

const MAX_BYTES = 8 * 1024 * 1024

/** Bytes of a statement without its text and its parameters, and of a parameter; measured. */
const STATEMENT_BYTES = 400
const PARAMETER_BYTES = 100

export class StatementCache {
  readonly #kept = new LRUCache<string, Kept>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ compiled }) => statementBytes(compiled)
  })

  /** The numbers of plans and sessions. */
  readonly #numbers = new WeakMap<object, number>()
  #count = 0

  /** Returns what is compiled. Calls `create` if that is not known for these types. */
  find ({ owner, variant, types }: Key, create: () => Compiled): Compiled {
    const number = this.#numbers.get(owner) ?? this.#count++
    this.#numbers.set(owner, number)
    const key = `${number} ${variant}`
    const known = this.#kept.get(key)
    if (known?.types.every((type, i) => type === types[i]) === true) return known.compiled
    const compiled = create()
    this.#kept.set(key, { types, compiled })
    return compiled
  }

  /** The memory that the statements take. */
  get bytes (): number {
    return this.#kept.calculatedSize
  }
}

/** Returns the memory that statements take, at most. */
function statementBytes ({ statements }: Compiled): number {
  return statements.reduce((sum, { text, parameters }) => {
    const fixed = parameters.reduce<number>(
      (sum, value) => sum + (typeof value === 'string' ? 2 * value.length : 0),
      0
    )
    return sum + STATEMENT_BYTES + 2 * text.length + PARAMETER_BYTES * parameters.length + fixed
  }, STATEMENT_BYTES)
}
