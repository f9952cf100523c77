/**
 * Reads the files and folders that a command is given.
 */
import { readdir, readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { readFolder, type ReadFolder } from '../named/read-folder.ts'
import type { BatchLimits } from '../plan/read-batch.ts'
import { UsageError } from './arguments.ts'

export interface Input {
  /** Name for messages. */
  readonly name: string
  readonly bytes: Buffer
}

/** Reads a file; `-` is standard input. Throws a UsageError when it cannot be read. */
export async function readInput (file: string, stdin: Readable): Promise<Input> {
  return file === '-'
    ? { name: '<stdin>', bytes: await buffer(stdin) }
    : { name: file, bytes: await readBytes(file) }
}

/** Throws a UsageError when the file cannot be read. */
export async function readBytes (file: string): Promise<Buffer> {
  try {
    return await readFile(file)
  } catch (error) {
    throw new UsageError(`${file}: ${(error as Error).message}`)
  }
}

/**
 * Reads a folder of named batches as the service does. Throws a UsageError when it cannot be
 * listed.
 */
export async function readBatchFolder (folder: string, limits: BatchLimits): Promise<ReadFolder> {
  try {
    await readdir(folder)
  } catch (error) {
    throw new UsageError(`${folder}: ${(error as Error).message}`)
  }
  return readFolder(folder, limits)
}
