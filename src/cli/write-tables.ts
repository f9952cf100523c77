/**
 * Writes the TypeScript of tables, in the form of Kysely: a member for each table with the types of
 * its columns. Types are those of the service's JSON.
 */
import { union, writeObject } from '../named/typescript.ts'
import type {
  ColumnDescription,
  TableDescription,
  TypeDescription
} from '../tables/read-tables.ts'

/**
 * Returns the declaration of `Database`, for `createClient` of oneflight-client. `schema`: that of
 * the tables that are named without it.
 */
export function writeTables (tables: readonly TableDescription[], schema: string): string {
  const members = tables.map(table => ({
    name: table.schema === schema ? table.name : `${table.schema}.${table.name}`,
    description: table.comment,
    type: writeObject(table.columns.map(column => ({
      name: column.name,
      description: column.comment,
      type: writeColumn(column)
    })))
  }))
  return `/** The tables of a database, written by \`oneflight types\`. */
export interface Database ${writeObject(members)}
`
}

/** The type of a column when it is read, inserted and updated. */
function writeColumn (column: ColumnDescription): string {
  const { optional, select, insert, update } = column
  const type = writeValue(column)
  if (select && insert && update) return optional ? `Generated<${type}>` : type
  const inserted = optional ? `${type} | undefined` : type
  return `ColumnType<${
    [select ? type : 'never', insert ? inserted : 'never', update ? type : 'never'].join(', ')
  }>`
}

/** The type of the values of a column. */
export function writeValue ({ type, nullable }: ColumnDescription): string {
  return orNull(writeType(type), nullable)
}

/** `Json` contains null. */
function orNull (type: string, nullable: boolean): string {
  return nullable && type !== 'Json' ? `${type} | null` : type
}

/**
 * Arrays have one dimension and no null in them, as in the types of other generators: PostgreSQL
 * does not know otherwise.
 */
function writeType (type: TypeDescription): string {
  switch (type.kind) {
    case 'plain':
      return PLAIN.get(type.name) ?? 'string'
    case 'enum':
      return union(type.labels.map(label => JSON.stringify(label)))
    case 'array':
      return `Array<${writeType(type.element)}>`
    case 'composite':
      return writeObject(type.fields.map(field => ({
        name: field.name,
        type: orNull(writeType(field.type), true)
      })))
  }
}

/** The types that are not strings in JSON, by their names in pg_type. */
const PLAIN: ReadonlyMap<string, string> = new Map([
  ...['int2', 'int4', 'float4', 'float8', 'numeric'].map(name => [name, 'number'] as const),
  ['int8', 'bigint'],
  ['bool', 'boolean'],
  ['json', 'Json'],
  ['jsonb', 'Json']
])
