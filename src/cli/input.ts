/**
 * Reads the files and folders that a command is given, and finds the positions of issues in them.
 */
import { readdir, readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { describeBatchIssues } from '../errors/envelope.ts'
import {
  childrenOf,
  findSyntaxError,
  membersOf,
  parseJsonText,
  sourceOf,
  offsetOf,
  positionOf,
  type Position
} from '../json/json-text.ts'
import { tryParse } from '../json/try-parse.ts'
import { readFolder, type ReadFolder } from '../named/read-files.ts'
import type { BatchLimits } from '../plan/check/read-batch.ts'
import { UsageError } from './arguments.ts'

export interface Input {
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
  const root = parseJsonText(text)
  if (root === undefined || findSyntaxError(text) !== undefined) return bytes
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
  return readFile(file).catch(error => refuse(file, error))
}

function refuse (path: string, error: unknown): never {
  throw new UsageError(`${path}: ${(error as Error).message}`)
}

/**
 * Reads a folder of named batches as the service does. Throws a UsageError when it cannot be
 * listed.
 */
export async function readBatchFolder (folder: string, limits: BatchLimits): Promise<ReadFolder> {
  await readdir(folder).catch(error => refuse(folder, error))
  return readFolder(folder, limits)
}

export type BatchText = ReturnType<typeof readBatchText>

type Element = Readonly<Record<string, unknown>>

export function readBatchText ({ name, bytes }: Input) {
  const text = bytes.toString()
  const batch = tryParse(text)
  const root = batch === undefined ? undefined : parseJsonText(text)
  return {
    name,
    text,
    /** Where `path` is in the text; undefined when that is unknown, as in invalid JSON. */
    locate: (path: ReadonlyArray<string | number>): Position | undefined =>
      root === undefined ? undefined : positionOf(text, offsetOf(root, path)),
    /**
     * Describes an operation: `insert orders`. `silent` is true when it returns no rows by request,
     * so their number means nothing.
     */
    operation (id: string): { readonly title: string, readonly silent: boolean } {
      // The service ran it, so it exists.
      const { op, table, returning } = (batch as readonly Element[]).find(element =>
        element['id'] === id
      ) as Element
      return {
        title: `${String(op)} ${String(table)}`,
        silent: Array.isArray(returning) && returning.length === 0
      }
    }
  }
}

/**
 * One line per issue: `order.json:3:5: operation 1 (order): member_unknown at wheer: There is …`.
 * `position`: that of a batch which has no list of issues.
 */
export function describeIssues (
  error: Parameters<typeof describeBatchIssues>[0],
  { name, locate }: BatchText,
  position?: Position
): readonly string[] {
  return describeBatchIssues(error).map(({ path, message }) => {
    const at = (error.errors === undefined ? position : undefined) ??
      (path.length === 0 ? undefined : locate(path))
    return `${name}${at === undefined ? '' : `:${at.line}:${at.column}`}: ${message}`
  })
}
