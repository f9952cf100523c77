/**
 * `oneflight types`: writes the TypeScript of a database and of a folder of named batches, for
 * oneflight-client.
 */
import { readDatabaseSettings, readLimits } from '../config/config.ts'
import { writeTypes, type ColumnsOf } from '../named/write-types.ts'
import { batchLimits } from '../plan/read-batch.ts'
import type { TableDescription } from '../tables/read-tables.ts'
import { readSettings, UsageError } from './arguments.ts'
import type { TypesOptions } from './commands.ts'
import type { CliContext } from './context.ts'
import { readBatchFolder } from './input.ts'
import { visible } from './text.ts'
import { writeTables, writeValue } from './write-tables.ts'

/** Prints a module, or one line per fault of a file. Resolves with the exit code. */
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
  if (read !== undefined && 'faults' in read) {
    stderr.write(read.faults.map(fault => `oneflight: ${visible(fault)}\n`).join(''))
    return 1
  }
  const tables = options.database === true ? await readDatabase(options, env) : undefined
  const parts = [
    ...tables === undefined ? [] : [writeTables(tables.all, tables.schema)],
    ...read === undefined ? [] : [writeTypes(read.batches.values(), findColumns(tables?.all ?? []))]
  ]
  const text = parts.join('\n')
  stdout.write(`${writeImports(text)}${text}`)
  return 0
}

/** Throws a UsageError when the database or the role cannot be used. */
async function readDatabase (
  { role }: TypesOptions,
  env: CliContext['env']
): Promise<{ readonly all: readonly TableDescription[], readonly schema: string }> {
  const { config, database } = readSettings(readDatabaseSettings, env)
  const { DB_SCHEMAS: schemas } = config
  // Loaded only now: other commands do not need a database.
  const { describeTables } = await import('../tables/read-tables.ts')
  try {
    const options = { schemas, role, timeoutMs: config.STATEMENT_TIMEOUT_MS }
    return { all: await describeTables(database, options), schema: schemas[0] as string }
  } catch (error) {
    throw new UsageError(`cannot read the database: ${(error as Error).message}`)
  }
}

function findColumns (tables: readonly TableDescription[]): ColumnsOf {
  const columns = new Map(tables.map(({ schema, name, columns }) => [
    `${schema}.${name}`,
    new Map(columns.map(column => [column.name, writeValue(column)]))
  ]))
  return ({ schema, name }) => columns.get(`${schema}.${name}`)
}

/** The types of the client that a module uses. */
function writeImports (text: string): string {
  const used = ['ColumnType', 'Generated', 'Json'].filter(name =>
    new RegExp(`\\b${name}\\b`).test(text))
  return used.length === 0 ? '' : `import type { ${used.join(', ')} } from 'oneflight-client'\n\n`
}
