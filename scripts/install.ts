/**
 * Installs the packages of folders that `npm ci` leaves out, because few people need them: `node
 * scripts/install.ts bench test/matrix`. A folder is skipped when its packages are newer than its
 * package-lock.json. Paths are relative to the working directory.
 */
import { spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'

for (const folder of process.argv.slice(2)) {
  if (isInstalled(folder)) continue
  console.log(`# installing the packages of ${folder}/, once: npm ci --prefix ${folder}`)
  // `npm run --silent` would hide the reason of a failure.
  const { status } = spawnSync(
    'npm',
    ['ci', '--prefix', folder, '--no-audit', '--loglevel=error'],
    { stdio: 'inherit' }
  )
  if (status !== 0) process.exit(1)
}

/** npm writes node_modules/.package-lock.json when it has installed all packages. */
function isInstalled (folder: string): boolean {
  const installed = statSync(join(folder, 'node_modules/.package-lock.json'), {
    throwIfNoEntry: false
  })
  return installed !== undefined &&
    installed.mtimeMs >= statSync(join(folder, 'package-lock.json')).mtimeMs
}
