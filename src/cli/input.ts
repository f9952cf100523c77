/**
 * Reads the files and folders that a command is given.
 */
import { readdir, readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { childrenOf, membersOf, parseJsonText, sourceOf } from '../json/json-text.ts'
import { readFolder, type ReadFolder } from '../named/read-folder.ts'
import type { BatchLimits } from '../plan/read-batch.ts'
import { UsageError } from './arguments.ts'

export interface Input {
  /** Name for messages. */
  readonly name: string
  readonly bytes: Buffer
}

/** Reads a batch; `-` is standard input. Throws a UsageError when it cannot be read. */
export async function readInput (file: string, stdin: Readable): Promise<Input> {
  const [name, bytes] = file === '-'
    ? ['<stdin>', await buffer(stdin)] as const
    : [file, await readBytes(file)] as const
  return { name, bytes: blankSchema(bytes) }
}

/**
 * Replaces what is around the operations in `{"$schema": "…", "operations": […]}` by spaces, so
 * that their positions hold. Returns any other text unchanged.
 */
function blankSchema (bytes: Buffer): Buffer {
  const text = bytes.toString()
  // Most batches are arrays, whose text is parsed later.
  if (!/^\s*\{/.test(text)) return bytes
  const { root, error } = parseJsonText(text)
  if (root === undefined || error !== undefined) return bytes
  const members = new Map(membersOf(root))
  const operations = members.get('operations')
  const isBatch = operations !== undefined && childrenOf(root).length === members.size &&
    [...members.keys()].every(name => name === '$schema' || name === 'operations')
  if (!isBatch) return bytes
  const before = text.slice(0, operations.offset).replaceAll(/[^\n]/g, ' ')
  return Buffer.from(`${before}${sourceOf(text, operations)}`)
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
