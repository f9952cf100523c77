/**
 * Writes the TypeScript of named batches: for each name the types of its parameters and of its
 * results. Only the database knows the types of columns; without it they are `unknown`.
 */
import { has, isObject, writeJson, type Json, type JsonObject } from '../json/parse.ts'
import type { NestedReads, OutputColumn, PlanNode, TableName } from '../plan/nodes.ts'
import { isAllColumns, returnsOneRow } from '../plan/output.ts'
import type { NamedBatch } from './named-batch.ts'
import { findReferred } from './schema-parts.ts'

/** The types of the columns of a table, by name; undefined: they are not known. */
export type ColumnsOf = (table: TableName) => ReadonlyMap<string, string> | undefined

/** Returns the declaration of `Batches`, for `createClient` of oneflight-client. */
export function writeTypes (
  batches: Iterable<NamedBatch>,
  columnsOf: ColumnsOf = () => undefined
): string {
  const members = [...batches].map(({ name, description, schema, planner }) => ({
    name,
    description,
    type: writeObject([
      { name: 'params', type: writeParameters(schema) },
      { name: 'result', type: writeResults(planner.planOfFile.operations, columnsOf) }
    ])
  }))
  return [
    '/** The named batches of a folder, written by `oneflight types`. */',
    `export interface Batches ${writeObject(members)}`,
    '',
    '/** A row: its columns are not checked. */',
    `export interface ${ROW} {`,
    '  [column: string]: unknown',
    '}',
    ''
  ].join('\n')
}

function writeResults (operations: readonly PlanNode[], columnsOf: ColumnsOf): string {
  return writeObject(operations.map(node => {
    // Only the database knows what a function returns.
    const type = node.kind === 'call' ? ROW : writeRow(node, columnsOf)
    const rows = returnsOneRow(node) ? `[${type}]` : `${type}[]`
    const result = node.answersCount === true ? 'number' : rows
    return { name: node.id, type: union([result, ...node.when.length > 0 ? ['null'] : []]) }
  }))
}

/** A row with columns of unknown types. */
const ROW = 'Row'

/** A row of an operation or of a nested read. */
interface ReturnedRow extends Pick<PlanNode, 'table' | 'output'> {
  readonly nested?: NestedReads | undefined
}

function writeRow ({ table, output, nested }: ReturnedRow, columnsOf: ColumnsOf): string {
  const columns = columnsOf(table)
  if (columns === undefined || output?.length === 0) return ROW
  const all = [...columns].map(([name, type]) => ({ name, type }))
  const own = output?.flatMap(column =>
    isAllColumns(column) ? all : [writeOutput(column, columns)]) ?? all
  const members = nested?.reads.map((read): Member => {
    const type = writeRow(read, columnsOf)
    return { name: read.name, type: read.one ? `${type} | null` : `${type}[]` }
  }) ?? []
  return writeObject([...own, ...members])
}

/** What is computed from columns is `unknown`, except for numbers of rows. */
function writeOutput (
  { name, path, aggregate, cast, inserted }: OutputColumn,
  columns: ReadonlyMap<string, string>
): Member {
  const isPlain = aggregate === undefined && cast === undefined && path?.keys.length === 0
  const type = isPlain ? columns.get(path.column) : undefined
  const known = aggregate === 'count' ? 'bigint' : inserted === undefined ? type : 'boolean'
  return { name, type: known ?? UNKNOWN }
}

/** The service refuses parameters that the schema does not declare. */
function writeParameters (schema: JsonObject): string {
  const { properties = {} } = schema
  return Object.keys(properties as JsonObject).length === 0
    ? EMPTY
    : writeType({ ...schema, additionalProperties: false }, {
      root: schema,
      references: [],
      followed: { count: 0 }
    })
}

interface Place {
  readonly root: JsonObject
  /** The references on the way to this place. A recursive one is `unknown`. */
  readonly references: readonly string[]
  /** How many references of the batch were followed. */
  readonly followed: { count: number }
}

/**
 * Further references of a batch are `unknown`. Schemas that refer to each other in many ways would
 * be written for each of these ways.
 */
const MAX_FOLLOWED = 1000

const EMPTY = 'Record<string, never>'

/** The type of the values of a schema, or one that contains them. */
function writeType (schema: Json | undefined, place: Place): string {
  if (schema === false) return 'never'
  if (!isObject(schema)) return UNKNOWN
  const { $ref, anyOf, oneOf, allOf, enum: values } = schema
  const listOf = (schemas: Json | undefined): readonly string[] | undefined =>
    (schemas as readonly Json[] | undefined)?.map(part => writeType(part, place))
  return intersect([
    typeof $ref === 'string' ? writeReferred($ref, place) : UNKNOWN,
    has(schema, 'const') ? writeLiteral(schema['const'] as Json) : UNKNOWN,
    union((values as readonly Json[] | undefined)?.map(writeLiteral)),
    union(listOf(anyOf)),
    union(listOf(oneOf)),
    ...listOf(allOf) ?? [],
    has(schema, 'const') || values !== undefined ? UNKNOWN : writeTypeWord(schema, place)
  ])
}

function intersect (types: readonly string[]): string {
  const known = [...new Set(types)].filter(type => type !== UNKNOWN)
  if (known.length < 2) return known[0] ?? UNKNOWN
  return known.map(type => type.includes(' | ') ? `(${type})` : type).join(' & ')
}

function writeReferred (reference: string, { root, references, followed }: Place): string {
  if (references.includes(reference) || reference === '#') return UNKNOWN
  followed.count += 1
  if (followed.count > MAX_FOLLOWED) return UNKNOWN
  return writeType(findReferred(reference, root), {
    root,
    references: [...references, reference],
    followed
  })
}

/** The type of a constant. Objects and arrays are not written out. */
function writeLiteral (value: Json): string {
  return typeof value === 'object' && value !== null ? UNKNOWN : writeJson(value)
}

function writeTypeWord (schema: JsonObject, place: Place): string {
  const { type, items, prefixItems } = schema
  if (type === undefined) return UNKNOWN
  return union([type].flat().map(word => {
    if (word === 'integer') return 'number | bigint'
    if (word === 'array') {
      return `ReadonlyArray<${prefixItems === undefined ? writeType(items, place) : UNKNOWN}>`
    }
    return word === 'object' ? writeObjectType(schema, place) : word as string
  }))
}

/** Undeclared members are possible only where the schema mentions them. */
function writeObjectType (schema: JsonObject, place: Place): string {
  const { properties = {}, required = [], additionalProperties, patternProperties } = schema
  const declared = properties as JsonObject
  const needed = required as readonly string[]
  const names = [...new Set([...Object.keys(declared), ...needed])]
  const isOpen = patternProperties !== undefined ||
    (additionalProperties ?? names.length === 0) !== false
  if (names.length === 0) {
    const type = patternProperties === undefined ? writeType(additionalProperties, place) : UNKNOWN
    return isOpen ? `{ [name: string]: ${type} }` : EMPTY
  }
  return writeObject(
    names.map(name => {
      const property = has(declared, name) ? declared[name] : undefined
      return {
        name,
        description: isObject(property) ? property['description'] : undefined,
        optional: !needed.includes(name),
        type: writeType(property, place)
      }
    }),
    isOpen ? ['[name: string]: unknown'] : []
  )
}

interface Member {
  readonly name: string
  readonly description?: Json | undefined
  readonly optional?: boolean
  readonly type: string
}

const UNKNOWN = 'unknown'

/** An object type with a line for each member; `others`: lines after them. */
export function writeObject (
  members: readonly Member[],
  others: readonly string[] = []
): string {
  const lines = members.flatMap(({ name, description, optional, type }) => [
    ...typeof description === 'string' ? [writeComment(description)] : [],
    `${writeKey(name)}${optional === true ? '?' : ''}: ${type}`
  ])
  return `{\n${[...lines, ...others].map(line => `${indent(line)}\n`).join('')}}`
}

function indent (text: string): string {
  return text.split('\n').map(line => `  ${line}`).join('\n')
}

function writeComment (text: string): string {
  return `/** ${text.replaceAll(/\s+/g, ' ').replaceAll('*/', '*\\/').trim()} */`
}

function writeKey (name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name)
}

export function union (types: readonly string[] = [UNKNOWN]): string {
  return types.includes(UNKNOWN) ? UNKNOWN : [...new Set(types)].join(' | ')
}
