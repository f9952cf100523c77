/**
 * The named batches of the contenders: those of bench/batches/ and one for each word.
 */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Stage } from '../scripts/dev/stage.ts'
import { mapWords, namedBatchOf } from './words/words.ts'

/** Writes their files to a folder, which is removed with the stage, and returns its path. */
export function useBatches (stage: Stage): string {
  const folder = mkdtempSync(join(tmpdir(), 'oneflight-bench-'))
  stage.teardown(() => rmSync(folder, { recursive: true }))
  cpSync(join(import.meta.dirname, 'batches'), folder, { recursive: true })
  for (const [name, batch] of Object.entries(mapWords(namedBatchOf))) {
    writeFileSync(join(folder, `${name}.json`), JSON.stringify(batch, null, 2))
  }
  return folder
}
