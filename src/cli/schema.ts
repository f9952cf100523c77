/**
 * `oneflight schema`: the JSON Schema of batch files, for editors.
 */
import { readLimits, type Limits } from '../config/config.ts'
import { describeBatchFile } from '../openapi/batch-file.ts'
import { readSettings } from './arguments.ts'
import type { CliContext } from './terminal.ts'

/** Prints the schema. Returns the exit code. */
export function printSchema ({ env, stdout }: CliContext): number {
  stdout.write(writeBatchSchema(readSettings(readLimits, env)))
  return 0
}

/** Returns the text of the schema, with a line for each definition. */
export function writeBatchSchema (limits: Pick<Limits, 'MAX_OPS' | 'MAX_ROWS'>): string {
  const { $defs, ...words } = describeBatchFile(limits)
  const write = (members: object): string =>
    Object.entries(members).map(([name, value]) =>
      `${JSON.stringify(name)}: ${JSON.stringify(value)}`
    ).join(',\n')
  return `{\n${write(words)},\n"$defs": {\n${write($defs as object)}\n}\n}\n`
}
