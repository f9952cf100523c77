/**
 * Parses references in strings. It knows only the ids of earlier operations: whether a row or a
 * column exists is known when the batch runs.
 */
import { paramsId } from '../../schemas/batch.ts'
import { referenceAttempt } from '../../schemas/operand.ts'
import { maxInt4 } from '../../schemas/operation.ts'
import type { JsonDocument, Reference } from './nodes.ts'
import type { Parameter } from './parameter.ts'

const escaped = /^\$\$+[A-Za-z_][A-Za-z0-9_]*(?:\.|$)/
/**
 * What follows the id: nothing, `.row`, `.row.column`, `.*.column` or `.column`. A number after the
 * id is a row, never a column.
 */
const form =
  /^(?:|\.(?<row>0|[1-9][0-9]*)|\.(?:(?<rowOf>0|[1-9][0-9]*|\*)\.|(?!(?:[0-9]+|\*)$))(?<column>[^.]+))$/

/**
 * `$id[…` and `${id.…`: how other languages write a member. With further `$`, the escaped text.
 * Both are data if no operation has the id.
 */
const bracketed = /^\$+(?:([A-Za-z_][A-Za-z0-9_]*)\[|\{([A-Za-z_][A-Za-z0-9_]*)\.)/
/** A step in brackets, `[0]` or `["name"]`. */
const bracketStep = /\[["']?([^[\]"']*)["']?\](?=[.[]|$)/g

const plainTextHint = 'To send the string itself, double its first $.'
// The string is not quoted: it may be a password.
const malformedMessage =
  'A reference must have the form $op, $op.column, $op.row, $op.row.column or $op.*.column. ' +
  plainTextHint

/** A string of the request: data (unescaped), a reference, or an invalid reference. */
export type ParsedString =
  | { readonly kind: 'data', readonly text: string }
  | { readonly kind: 'malformed' | 'unknown', readonly message: string }
  | Reference

/** What a reference can name. */
export interface KnownOperations {
  /** The parameters of a named batch, by name; undefined: the batch has no name. */
  readonly parameters?: ReadonlyMap<string, Parameter> | undefined
  /** Index of every earlier operation, by id. */
  readonly earlier: ReadonlyMap<string, number>
  /** The ids of all operations of the batch, in their order. */
  readonly ids: ReadonlySet<string>
}

/**
 * Whether a string is data as it stands: neither an attempt at a reference nor escaped. `isId`:
 * whether an operation of the batch has the id; by default any may.
 */
export function isData (text: string, isId: (id: string) => boolean = () => true): boolean {
  if (!text.startsWith('$')) return true
  if (escaped.test(text) || referenceAttempt.test(text)) return false
  const id = findBracketed(text)
  return id === undefined || !isId(id)
}

/** The id before a bracket or in braces: of `$order[0].id` and `${order.0.id}`. */
export function findBracketed (text: string): string | undefined {
  const [, before, inside] = bracketed.exec(text) ?? []
  return before ?? inside
}

/** Parses a string of an operation. */
export function parseString (text: string, known: KnownOperations): ParsedString {
  const { parameters, ids } = known
  const hasParameters = (id: string): boolean => id === paramsId && parameters !== undefined
  if (isData(text, id => ids.has(id) || hasParameters(id))) return { kind: 'data', text }
  const bracketed = findBracketed(text)
  if (bracketed !== undefined) return parseBracketed(text, bracketed, known)
  if (escaped.test(text)) return { kind: 'data', text: text.slice(1) }
  const [name = ''] = text.slice(1).split('.', 1)
  if (name === paramsId && known.parameters !== undefined) {
    return parseParameter(text, known.parameters)
  }
  const source = known.earlier.get(name)
  if (source === undefined) return { kind: 'unknown', message: describeUnknown(text, name, known) }
  const parts = form.exec(text.slice(name.length + 1))?.groups
  if (parts === undefined) return { kind: 'malformed', message: malformedMessage }
  const { row, rowOf = row ?? '0', column } = parts
  return {
    kind: 'reference',
    source,
    // No result has more rows than int4 can count, so a larger number still names a missing row.
    row: rowOf === '*' ? '*' : Math.min(Number(rowOf), maxInt4),
    column
  }
}

/** `id` is that of an operation. A later one has no rows yet, so the text is data. */
function parseBracketed (text: string, id: string, known: KnownOperations): ParsedString {
  if (text.startsWith('$$')) return { kind: 'data', text: text.slice(1) }
  const { parameters, earlier } = known
  const isParameter = id === paramsId && parameters !== undefined
  if (!isParameter && !earlier.has(id)) return { kind: 'data', text }
  const bare = text.startsWith('${') ? `$${text.slice(2).replace(/\}$/, '')}` : text
  const dotted = bare.replaceAll(bracketStep, '.$1')
  const rest = dotted.slice(id.length + 1)
  const isRepaired = !/[[\]{}]/.test(rest) &&
    (isParameter ? parameters.has(rest.slice(1)) : form.test(rest))
  if (isRepaired) {
    const message = `A reference has no brackets and no braces: write "${dotted}". ${plainTextHint}`
    return { kind: 'malformed', message }
  }
  return {
    kind: 'malformed',
    message: isParameter
      ? `A parameter must have the form $${paramsId}.name. ${plainTextHint}`
      : malformedMessage
  }
}

function parseParameter (
  text: string,
  parameters: NonNullable<KnownOperations['parameters']>
): ParsedString {
  const name = text.slice(paramsId.length + 2)
  const parameter = parameters.get(name)
  if (parameter === undefined) {
    const names = [...parameters.keys()]
    const declared = names.length === 0 ? 'none' : names.join(', ')
    const message = `"${text}" names no parameter. Declared parameters: ${declared}. ` +
      plainTextHint
    return { kind: 'unknown', message }
  }
  return referTo(name, parameter)
}

/** The source of references to parameters. No operation has this index. */
const NO_SOURCE = -1

/** Returns the reference to a parameter. */
export function referTo (name: string, parameter: Parameter): Reference {
  return { kind: 'reference', source: NO_SOURCE, row: 0, column: name, parameter }
}

/** Whether JSON has references to operations, and not only values of the batch. */
export function refersToOperation ({ references }: Pick<JsonDocument, 'references'>): boolean {
  return references.some(({ parameter }) => parameter === undefined)
}

/** Whether a reference gives a list: the values of a column in all rows, or a parameter. */
export function isList ({ row, parameter }: Reference): boolean {
  return parameter === undefined ? row === '*' : parameter.isList
}

/** Whether a reference gives one value, not a list or a row. */
export function isValue ({ row, column }: Reference): boolean {
  return row !== '*' && column !== undefined
}

/** Maximum number of ids that a message lists. */
const MAX_LISTED = 10
/** Longest unknown name that a message quotes. */
const MAX_NAME_LENGTH = 63

/** Explains why no earlier operation has the name in a reference. */
function describeUnknown (text: string, name: string, known: KnownOperations): string {
  const reason = describeOrder(name, known)
  if (reason !== undefined) return `${reason} ${plainTextHint}`
  // Without a dot the string may be a password, which is not quoted.
  const problem = text.includes('.') && name.length <= MAX_NAME_LENGTH
    ? `Unknown operation "${name}".`
    : 'The string looks like a reference, but names no earlier operation.'
  return `${problem} ${listEarlier([...known.earlier.keys()])} ${plainTextHint}`
}

/** Explains why no earlier operation has a name that is not part of a reference. */
export function describeUnknownOperation (name: string, known: KnownOperations): string {
  return describeOrder(name, known) ??
    `Unknown operation "${name}". ${listEarlier([...known.earlier.keys()])}`
}

/** Returns the message for the name of this operation or of a later one; otherwise undefined. */
function describeOrder (
  name: string,
  { earlier, ids }: KnownOperations
): string | undefined {
  const index = [...ids].indexOf(name)
  // Ids are unique, so the number of earlier operations is the index of this one.
  if (index === earlier.size) {
    return `"${name}" is this operation itself; a reference must name an earlier operation.`
  }
  return index > earlier.size
    ? `Operation "${name}" comes later in the batch; move it before this operation.`
    : undefined
}

function listEarlier (ids: readonly string[]): string {
  if (ids.length === 0) return 'There is no earlier operation.'
  const more = ids.length > MAX_LISTED ? ` and ${ids.length - MAX_LISTED} more` : ''
  return `Earlier operations: ${ids.slice(0, MAX_LISTED).join(', ')}${more}.`
}
