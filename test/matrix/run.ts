/**
 * `npm run test:matrix`: runs tests of the engine on one embedded PostgreSQL after another;
 * prints a table.
 *
 * Arguments name the major versions (`npm run test:matrix -- 14 18`); the default is every
 * supported one. PostgreSQL 14 to 17 are packages of this folder, which `npm ci` in the root leaves
 * out. The run fails when a version is not installed, unless no binaries exist for it on this
 * platform.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { availableMajors } from '../../scripts/dev/postgres.ts'

const root = resolve(import.meta.dirname, '../..')
const summaryFile = join(root, '.tap', 'summary')
const platform = `${process.platform}-${process.arch}`
const named = process.argv.slice(2).map(Number)
const majors = named.length > 0 ? named : [14, 15, 16, 17, 18]
const installed = availableMajors()

const rows = majors.map(major => {
  if (installed.includes(major)) return { major, ...runMajor(major) }
  // npm offers binaries of PostgreSQL 14 only for linux-x64.
  if (major === 14 && platform !== 'linux-x64') {
    return { major, ok: true, text: `skipped: no binaries of PostgreSQL 14 exist for ${platform}` }
  }
  return { major, ok: false, text: `not available: postgres-${major}-${platform} is not installed` }
})

console.log(
  `\nPostgreSQL  result\n${
    rows.map(({ major, text }) => `${String(major).padEnd(10)}  ${text}`).join('\n')
  }`
)
process.exitCode = rows.every(({ ok }) => ok) ? 0 : 1

function runMajor (major: number): { ok: boolean, text: string } {
  console.log(`\n# PostgreSQL ${major}`)
  rmSync(summaryFile, { force: true })
  const { TEST_DATABASE_URL: _, ...env } = process.env // a given database has only one version
  const { status } = spawnSync(process.execPath, [
    ...process.execArgv,
    join(root, 'test', 'run.ts'),
    '--suite=versions'
  ], { cwd: root, stdio: 'inherit', env: { ...env, PG_MAJOR: String(major), TEST_FULL: 'on' } })
  try {
    return { ok: status === 0, text: readFileSync(summaryFile, 'utf8').trim() }
  } catch {
    return { ok: false, text: 'stopped without a result' }
  }
}
