/**
 * Types of PostgreSQL as trees: what the service must know of a type to write its values.
 */
import type { Fragment } from '../fragment/fragment.ts'

/** A type. */
export type Type =
  | BaseType
  | ArrayType
  | CompositeType
  | DomainType
  | EnumType
  | RangeType
  | UnknownType

interface NamedType {
  readonly oid: number
  /** Its name without length or precision, as PostgreSQL writes it: `character varying`. */
  readonly name: string
  /**
   * The type without length or precision, as SQL. Undefined: statements cannot name it, because a
   * role may not use names of another schema than that of the table.
   */
  readonly sql: Fragment | undefined
}

/**
 * How the values of a base type are written:
 * - `plain`: each scalar has a text that the type holds, or that PostgreSQL refuses
 * - `list`: also an array or an object, as JSON text (geometry, vectors)
 * - the others: what `write` does for them
 */
export type Form =
  | 'plain'
  | 'list'
  | 'json'
  | 'integer'
  | 'numeric'
  | 'money'
  | 'characters'
  | 'name'
  | 'byte'
  | 'date'
  | 'time'
  | 'timetz'
  | 'timestamp'
  | 'timestamptz'
  | 'interval'

/** What a type modifier says. */
export interface Limits {
  /** Maximum characters, or bits. */
  readonly length?: number
  /** Digits of a number, or those after the point of a second. */
  readonly precision?: number
  /** Digits after the point; negative: zeros before it. */
  readonly scale?: number
  /** The fields of an interval: `day to minute`. */
  readonly fields?: string
}

export interface BaseType extends NamedType, Limits {
  readonly kind: 'base'
  readonly form: Form
  /** The type modifier as the catalogue has it (pg_attribute.atttypmod); -1: none. */
  readonly modifier: number
  /** The delimiter of its values in an array. */
  readonly delimiter: string
}

export interface ArrayType extends NamedType {
  readonly kind: 'array'
  readonly element: Type
  readonly delimiter: string
}

export interface CompositeType extends NamedType {
  readonly kind: 'composite'
  /** The OID of the relation that has its attributes (pg_type.typrelid). */
  readonly relation: number
  /** Its attributes by name, in their order. */
  readonly attributes: ReadonlyMap<string, Type>
}

interface DomainType extends NamedType {
  readonly kind: 'domain'
  /** With the length or precision that the domain has. */
  readonly base: Type
}

interface EnumType extends NamedType {
  readonly kind: 'enum'
}

export interface RangeType extends NamedType {
  readonly kind: 'range' | 'multirange'
  readonly subtype: Type
}

/** A type of which too little is known to write an array or an object. */
interface UnknownType extends NamedType {
  readonly kind: 'unknown'
}

/** The type under all domains. */
export function baseOf (type: Type): Exclude<Type, DomainType> {
  let base = type
  while (base.kind === 'domain') base = base.base
  return base
}

/** The name of a type with its length or precision, as PostgreSQL writes it: `numeric(10,2)`. */
export function nameOf (type: Type): string {
  if (type.kind === 'array') return `${nameOf(type.element)}[]`
  if (type.kind !== 'base') return type.name
  const { name, length, precision, scale, fields } = type
  if (length !== undefined) return `${name}(${length})`
  if (scale !== undefined) return `${name}(${precision},${scale})`
  const digits = precision === undefined ? '' : `(${precision})`
  if (type.form === 'interval') return [name, fields].filter(Boolean).join(' ') + digits
  const [first, ...rest] = name.split(' ')
  return [`${first}${digits}`, ...rest].join(' ')
}
