/**
 * Parses names of tables and columns. Rejects names that PostgreSQL cannot have, and tables outside
 * of DB_SCHEMAS.
 */
import { maxDepth, maxIdentifierBytes, maxInt4 } from '../../schemas/operation.ts'
import type { Place } from './context.ts'
import type { ColumnPath, Meeting, TableName } from './nodes.ts'

/**
 * Parses the name of a table. An unqualified name belongs to the first schema of DB_SCHEMAS.
 * Returns undefined after an issue.
 */
export function planTable (text: string, place: Place): TableName | undefined {
  const name = planName(text, place)
  if (name === undefined) return undefined
  const { tables } = place.context.batch
  const key = tableKey(name)
  const table = tables.get(key) ?? name
  tables.set(key, table)
  place.context.nameTable(table, place.path)
  return table
}

/** The key of a name in maps. A name can contain a dot, but no U+0000. */
export function tableKey ({ schema, name }: TableName): string {
  return `${schema}\0${name}`
}

/**
 * Parses the name of a table or a function. The last step of the path (`table` or `function`) is
 * the word for it in messages.
 */
export function planName (text: string, { context, path }: Place): TableName | undefined {
  const { schemas } = context.batch.limits
  const word = String(path.at(-1))
  const parts = text.split('.')
  const schema = parts.length === 1 ? schemas[0] : parts[0]
  const name = parts.at(-1)
  if (parts.length > 2 || !isIdentifier(schema) || !isIdentifier(name)) {
    return context.addIssue(
      'table_invalid',
      path,
      `"${word}" must be <${word}> or <schema>.<${word}>, ` +
        `each name 1 to ${maxIdentifierBytes} bytes long.`
    )
  }
  if (!schemas.includes(schema)) {
    return context.addIssue(
      'schema_forbidden',
      path,
      `Schema "${schema}" is not accessible: DB_SCHEMAS does not list it.`
    )
  }
  return { schema, name }
}

/** Returns what is wrong with the name of a column, or undefined. */
export function findColumnProblem (name: string): string | undefined {
  return isIdentifier(name)
    ? undefined
    : `A column name must be 1 to ${maxIdentifierBytes} bytes long.`
}

/** Returns what is wrong with the name of a column where no JSON path is allowed, or undefined. */
export function findPlainColumnProblem (name: string): string | undefined {
  return name.includes('->')
    ? 'A JSON path is not allowed here; use the name of a column.'
    : findColumnProblem(name)
}

/** Returns what is wrong with a column or a path into its JSON, or undefined. */
export function findPathProblem (text: string): string | undefined {
  if (!text.includes('->')) return findColumnProblem(text)
  // A request cannot store deeper JSON, so a longer path would find nothing and only cost time.
  if (countKeys(text) > maxDepth) {
    return `A JSON path must have at most ${maxDepth} keys.`
  }
  const { column, keys } = readPath(text)
  // `->>` gives text, which has no keys.
  return [column, ...keys].includes('') || /->>.*->/s.test(text)
    ? 'A JSON path must have the form column->key->0->>key: a key after each arrow, and ->> only ' +
      'before the last key.'
    : findColumnProblem(column)
}

/** Returns the number of keys of a path. It stops at one key more than a path may have. */
export function countKeys (text: string): number {
  return text.includes('->') ? text.split('->', maxDepth + 2).length - 1 : 0
}

/** Parses a column or a path in which findPathProblem finds nothing. */
export function readPath (text: string): ColumnPath {
  const [column = '', ...keys] = text.split(/->>?/)
  if (keys.length === 0) return toPath(column)
  return {
    column,
    keys: keys.map(key =>
      /^-?[0-9]+$/.test(key) ? Math.max(-maxInt4, Math.min(Number(key), maxInt4)) : key
    ),
    resultType: text.includes('->>') ? 'text' : 'json'
  }
}

/**
 * Reads the name of a column, or a path. `meets`: the column that its value is compared with or
 * stored in, if any.
 */
export type ReadColumn = (text: string, place: Place, meets?: Meeting) => ColumnPath

/** Returns a function that reads names of columns of a table; undefined: of a function's result. */
export function columnsOf (table: TableName | undefined): ReadColumn {
  return (text, { context, path }) => {
    const found = readPath(text)
    context.nameColumn(table, found.column, path)
    return found
  }
}

/** A path as a key of a map. */
export function keyOfPath ({ column, keys, resultType }: ColumnPath): string {
  return JSON.stringify([column, keys, resultType])
}

/** The path that is a column as a whole. */
export function toPath (column: string): ColumnPath {
  return { column, keys: [], resultType: 'column' }
}

/** Returns the meeting of a value with this column. */
export function meetColumn (column: string, as: Meeting['as'] = 'value'): Meeting {
  return { path: toPath(column), as }
}

function isIdentifier (name: string | undefined): name is string {
  return name !== undefined && name.length > 0 && Buffer.byteLength(name) <= maxIdentifierBytes
}
