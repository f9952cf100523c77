/**
 * `oneflight types`: writes the TypeScript of a database and of a folder of named batches, for
 * oneflight-client. A database is an interface as for Kysely: each table is a member, whose type
 * has the columns with the types that they have in the JSON of the service.
 */
import type { Type } from '../catalogue/type.ts'
import { readDatabaseSettings, readLimits } from '../config/config.ts'
import { writeTypes, type ColumnsOf, union, writeObject } from '../named/write-types.ts'
import { batchLimits } from '../plan/check/read-batch.ts'
import type { ColumnDescription, DescribedTables } from '../tables/read-tables.ts'
import { readSettings, UsageError } from './arguments.ts'
import type { TypesOptions } from './commands.ts'
import { readBatchFolder } from './input.ts'
import { type CliContext, visible } from './terminal.ts'

/** Prints a module, or one line per issue of a file. Resolves with the exit code. */
export async function printTypes (
  options: TypesOptions,
  folder: string | undefined,
  { env, stdout, stderr }: CliContext
): Promise<number> {
  if (options.role !== undefined && options.database !== true) {
    throw new UsageError('--role requires --database')
  }
  const read = folder === undefined
    ? undefined
    : await readBatchFolder(folder, batchLimits(readSettings(readLimits, env)))
  if (read !== undefined && 'issues' in read) {
    stderr.write(read.issues.map(issue => `oneflight: ${visible(issue)}\n`).join(''))
    return 1
  }
  const database = options.database === true ? await readDatabase(options, env) : undefined
  const parts = [
    ...database === undefined ? [] : [writeTables(database)],
    ...read === undefined ? [] : [writeTypes(read.batches.values(), findColumns(database))]
  ]
  const text = parts.join('\n')
  stdout.write(`${writeImports(text)}${text}`)
  return 0
}

interface Database extends DescribedTables {
  /** The schema of the tables that are named without it. */
  readonly schema: string
}

/** Throws a UsageError when the database or the role cannot be used. */
async function readDatabase (
  { role }: TypesOptions,
  env: CliContext['env']
): Promise<Database> {
  const { config, database } = readSettings(readDatabaseSettings, env)
  const { DB_SCHEMAS: schemas } = config
  // Loaded only now: other commands do not need a database.
  const { describeTables } = await import('../tables/read-tables.ts')
  try {
    const options = { schemas, role, timeoutMs: config.STATEMENT_TIMEOUT_MS }
    return { ...await describeTables(database, options), schema: schemas[0] as string }
  } catch (error) {
    throw new UsageError(`cannot read the database: ${(error as Error).message}`)
  }
}

function findColumns (database: Database | undefined): ColumnsOf {
  const columns = new Map(database?.tables.map(({ schema, name, columns }) => [
    `${schema}.${name}`,
    new Map(columns.map(column => [column.name, writeValue(column, database.labels)]))
  ]))
  return ({ schema, name }) => columns.get(`${schema}.${name}`)
}

function writeImports (text: string): string {
  const used = ['ColumnType', 'Generated', 'Json'].filter(name =>
    new RegExp(`\\b${name}\\b`).test(text))
  return used.length === 0 ? '' : `import type { ${used.join(', ')} } from 'oneflight-client'\n\n`
}

/** Returns the declaration of `Database`, for `createClient` of oneflight-client. */
function writeTables ({ tables, labels, schema }: Database): string {
  const members = tables.map(table => ({
    name: table.schema === schema ? table.name : `${table.schema}.${table.name}`,
    description: table.comment,
    type: writeObject(table.columns.map(column => ({
      name: column.name,
      description: column.comment,
      type: writeColumn(column, labels)
    })))
  }))
  return `/** The tables of a database, written by \`oneflight types\`. */
export interface Database ${writeObject(members)}
`
}

type Labels = Database['labels']

function writeColumn (column: ColumnDescription, labels: Labels): string {
  const { optional, select, insert, update } = column
  const type = writeValue(column, labels)
  if (select && insert && update) return optional ? `Generated<${type}>` : type
  const inserted = optional ? `${type} | undefined` : type
  return `ColumnType<${
    [select ? type : 'never', insert ? inserted : 'never', update ? type : 'never'].join(', ')
  }>`
}

function writeValue ({ type, nullable }: ColumnDescription, labels: Labels): string {
  return orNull(writeType(type, labels), nullable)
}

/** `Json` contains null. */
function orNull (type: string, nullable: boolean): string {
  return nullable && type !== 'Json' ? `${type} | null` : type
}

/**
 * Arrays have one dimension and no null in them, as in the types of other generators: PostgreSQL
 * records neither.
 */
function writeType (type: Type, labels: Labels): string {
  switch (type.kind) {
    case 'domain':
      return writeType(type.base, labels)
    case 'enum':
      return union(labels[type.oid]?.map(label => JSON.stringify(label)))
    case 'array':
      return `Array<${writeType(type.element, labels)}>`
    case 'composite':
      return writeObject([...type.attributes].map(([name, attribute]) =>
        ({ name, type: orNull(writeType(attribute, labels), true) })))
    case 'unknown':
      return 'unknown'
    default:
      return PLAIN.get(type.name) ?? 'string'
  }
}

/** The types that are not strings in JSON. */
const PLAIN: ReadonlyMap<string, string> = new Map([
  ...['smallint', 'integer', 'real', 'double precision', 'numeric'].map(name =>
    [name, 'number'] as const),
  ['bigint', 'bigint'],
  ['boolean', 'boolean'],
  ['json', 'Json'],
  ['jsonb', 'Json'],
  ['int2vector', 'Array<number>'],
  ['oidvector', 'Array<string>']
])
