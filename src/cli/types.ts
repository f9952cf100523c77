/**
 * `oneflight types`: writes the TypeScript of a folder of named batches, for oneflight-client.
 */
import { readLimits } from '../config/config.ts'
import { writeTypes } from '../named/write-types.ts'
import { batchLimits } from '../plan/read-batch.ts'
import { readSettings } from './arguments.ts'
import type { CliContext } from './context.ts'
import { readBatchFolder } from './input.ts'
import { visible } from './text.ts'

/** Prints a module, or one line per fault of a file. Resolves with the exit code. */
export async function printTypes (
  folder: string,
  { env, stdout, stderr }: CliContext
): Promise<number> {
  const read = await readBatchFolder(folder, batchLimits(readSettings(readLimits, env)))
  if ('faults' in read) {
    stderr.write(read.faults.map(fault => `oneflight: ${visible(fault)}\n`).join(''))
    return 1
  }
  stdout.write(writeTypes(read.batches.values()))
  return 0
}
