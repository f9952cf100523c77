/**
 * `npm run build`: compiles the service to JavaScript with declarations in `dist/`, for the
 * package. It deletes the previous build first. The compiler options are in tsconfig.build.json.
 * Runs in the working directory.
 */
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

rmSync('dist', { recursive: true, force: true })
const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')))
process.exitCode =
  spawnSync(process.execPath, [tsc, '--project', 'tsconfig.build.json'], { stdio: 'inherit' })
    .status ?? 1
