/**
 * Names of tables and columns: what cannot be an identifier of PostgreSQL is refused here, and the allowlist of schemas is applied.
 */
import { maxIdentifierBytes } from '../../schemas/operation.ts'
import type { Json } from '../json/parse.ts'
import type { Findings, Path, PlanLimits, TableName } from './nodes.ts'

/** Reads `table`; undefined when a fault was found. Unqualified names live in the first schema of the allowlist. */
export function planTable (value: Json, findings: Findings, limits: PlanLimits): TableName | undefined {
  if (typeof value !== 'string') return findings.fault('member_invalid', ['table'], 'table must be a string.')
  const parts = value.split('.')
  const schema = parts.length === 1 ? limits.schemas[0] : parts[0]
  const name = parts.at(-1)
  if (parts.length > 2 || !isIdentifier(schema) || !isIdentifier(name)) {
    return findings.fault('table_invalid', ['table'], `table must be <table> or <schema>.<table>, each of 1 to ${maxIdentifierBytes} bytes.`)
  }
  if (!limits.schemas.includes(schema)) return findings.fault('schema_forbidden', ['table'], `The schema "${schema}" is not open to requests.`)
  return { schema, name }
}

/** Whether `column` can name a column; notes a fault at `path` when not. */
export function checkColumn (column: string, path: Path, findings: Findings): boolean {
  if (isIdentifier(column)) return true
  findings.fault('member_invalid', path, `A column name has 1 to ${maxIdentifierBytes} bytes.`)
  return false
}

function isIdentifier (name: string | undefined): name is string {
  return name !== undefined && name.length > 0 && Buffer.byteLength(name) <= maxIdentifierBytes
}
