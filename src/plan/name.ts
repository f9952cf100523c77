/**
 * Names of tables and columns: what cannot be an identifier of PostgreSQL is refused here, and the
 * allowlist of schemas is applied.
 */
import { maxDepth, maxIdentifierBytes, maxInt4 } from '../../schemas/operation.ts'
import type { ColumnPath, PlanContext, PlanLimits, TableName } from './nodes.ts'

/**
 * Reads `table`; undefined when a fault was found. Unqualified names live in the first schema of
 * the allowlist.
 */
export function planTable (
  text: string,
  findings: PlanContext,
  limits: PlanLimits
): TableName | undefined {
  const parts = text.split('.')
  const schema = parts.length === 1 ? limits.schemas[0] : parts[0]
  const name = parts.at(-1)
  if (parts.length > 2 || !isIdentifier(schema) || !isIdentifier(name)) {
    return findings.fault(
      'table_invalid',
      ['table'],
      `table must be <table> or <schema>.<table>, each of 1 to ${maxIdentifierBytes} bytes.`
    )
  }
  if (!limits.schemas.includes(schema)) {
    return findings.fault(
      'schema_forbidden',
      ['table'],
      `The schema "${schema}" is not open to requests.`
    )
  }
  return { schema, name }
}

/** What is wrong with the name of a column; undefined when it can be one. */
export function columnFault (name: string): string | undefined {
  return isIdentifier(name) ? undefined : `A column name has 1 to ${maxIdentifierBytes} bytes.`
}

/**
 * What is wrong with the name of a column where others may have a path, which is not allowed here.
 */
export function plainColumnFault (name: string): string | undefined {
  return name.includes('->') ? 'No path is allowed here.' : columnFault(name)
}

/** What is wrong with a column or a path into its jsonb; undefined when it can be one. */
export function pathFault (text: string): string | undefined {
  if (!text.includes('->')) return columnFault(text)
  // No JSON is deeper, so a longer path leads nowhere; it would only cost.
  if (text.split('->', maxDepth + 2).length > maxDepth + 1) {
    return `A path has at most ${maxDepth} keys.`
  }
  const { column, keys } = readPath(text)
  const fault = columnFault(column)
  if (fault !== undefined) return fault
  // `->>` gives text, which has no keys.
  return keys.includes('') || /->>.*->/s.test(text)
    ? 'A path is column->key->0->>key, with a key after each arrow and ->> before the last ' +
      'one alone.'
    : undefined
}

/** Reads a column or a path in which pathFault finds nothing. */
export function readPath (text: string): ColumnPath {
  const [column = '', ...keys] = text.split(/->>?/)
  if (keys.length === 0) return { column, keys: [], gives: 'column' }
  return {
    column,
    keys: keys.map(key =>
      /^-?[0-9]+$/.test(key) ? Math.max(-maxInt4, Math.min(Number(key), maxInt4)) : key
    ),
    gives: text.includes('->>') ? 'text' : 'json'
  }
}

function isIdentifier (name: string | undefined): name is string {
  return name !== undefined && name.length > 0 && Buffer.byteLength(name) <= maxIdentifierBytes
}
