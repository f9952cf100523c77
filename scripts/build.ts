/**
 * `npm run build`: the service as JavaScript with declarations, in `dist/`, for the package. The
 * project itself runs its TypeScript as it is. In charge of: leaving nothing there of an earlier
 * build. What is compiled, and how, stands in tsconfig.build.json. Works in the working directory.
 */
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

rmSync('dist', { recursive: true, force: true })
const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')))
process.exitCode =
  spawnSync(process.execPath, [tsc, '--project', 'tsconfig.build.json'], { stdio: 'inherit' })
    .status ?? 1
