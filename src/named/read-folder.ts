/**
 * Reads BATCHES_DIR: all files of the folder whose names end with `.json`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BatchLimits } from '../plan/read-batch.ts'
import type { NamedBatch, NamedBatches } from './named-batch.ts'
import { readNamedBatch } from './read-file.ts'
import { PlanCache } from './request-planner.ts'

/** The files of a folder, by path. */
export type BatchFiles = ReadonlyArray<readonly [path: string, bytes: Uint8Array]>

/** The batches of a folder, or the faults of all of its files. */
export type ReadFolder =
  | { readonly batches: NamedBatches, readonly files: BatchFiles }
  | { readonly faults: readonly string[] }

/** Without a folder there are no batches. */
export function readFolder (folder: string | undefined, limits: BatchLimits): ReadFolder {
  if (folder === undefined) return readFiles([], limits)
  const names = tryToList(folder)
  if (names === undefined) return { faults: [`${folder}: The folder cannot be read.`] }
  const files: Array<BatchFiles[number]> = []
  const unreadable: string[] = []
  for (const name of names.filter(name => name.endsWith('.json'))) {
    const path = join(folder, name)
    const bytes = tryToRead(path)
    if (bytes === undefined) unreadable.push(`${path}: The file cannot be read.`)
    else files.push([path, bytes])
  }
  const read = readFiles(files, limits)
  if (unreadable.length === 0) return read
  return { faults: [...unreadable, ...'faults' in read ? read.faults : []] }
}

/** Reads files whose content is known. */
export function readFiles (files: BatchFiles, limits: BatchLimits): ReadFolder {
  const batches = new Map<string, NamedBatch>()
  const faults: string[] = []
  const plans = new PlanCache()
  for (const [path, bytes] of files) {
    const read = readNamedBatch(path, Buffer.from(bytes), limits, plans)
    if ('faults' in read) faults.push(...read.faults)
    else batches.set(read.batch.name, read.batch)
  }
  return faults.length > 0 ? { faults } : { batches, files }
}

function tryToList (folder: string): readonly string[] | undefined {
  try {
    return readdirSync(folder).sort()
  } catch {
    return undefined
  }
}

function tryToRead (path: string): Buffer | undefined {
  try {
    return readFileSync(path)
  } catch {
    return undefined
  }
}
