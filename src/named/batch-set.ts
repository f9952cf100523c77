/**
 * The named batches of a running service, which a reload replaces all at once.
 */
import type { BatchLimits } from '../plan/read-batch.ts'
import type { NamedBatches } from './named-batch.ts'
import { readFiles, readFolder, type BatchFiles } from './read-folder.ts'

export interface BatchSet {
  readonly current: () => NamedBatches
  /** The files of the current batches. */
  readonly files: () => BatchFiles
  /** Reads the folder again. Returns its faults, with which the current batches stay. */
  readonly reload: () => readonly string[]
  /** Takes other files, which are known to be valid. */
  readonly replace: (files: BatchFiles) => void
}

interface Loaded {
  readonly batches: NamedBatches
  readonly files: BatchFiles
}

/** Opens a folder, or takes `given` files instead. Returns the faults of invalid files. */
export function openBatchSet (
  folder: string | undefined,
  limits: BatchLimits,
  given?: BatchFiles
): BatchSet | readonly string[] {
  const first = given === undefined ? readFolder(folder, limits) : readFiles(given, limits)
  if ('faults' in first) return first.faults
  let loaded: Loaded = first
  return {
    current: () => loaded.batches,
    files: () => loaded.files,
    reload () {
      const read = readFolder(folder, limits)
      if ('faults' in read) return read.faults
      loaded = read
      return []
    },
    replace (files) {
      loaded = readFiles(files, limits) as Loaded
    }
  }
}
