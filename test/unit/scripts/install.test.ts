/**
 * Tests that scripts/install.ts installs the packages of a folder once, and again when its
 * package-lock.json is newer. Checks that these packages follow the rules of the project's own.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, readFileSync, utimesSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import t from 'tap'

const root = resolve(import.meta.dirname, '../../..')

t.test('packages are installed when they are missing or outdated', async t => {
  const folder = t.testdir({
    bin: {
      npm: `#!/bin/sh
test "$3" != broken || exit 3
mkdir -p "$3/node_modules" && echo "$@" >> "$3/node_modules/.package-lock.json"
`
    },
    one: { 'package-lock.json': '{}' },
    two: { 'package-lock.json': '{}' },
    broken: { 'package-lock.json': '{}' }
  })
  chmodSync(join(folder, 'bin/npm'), 0o755)
  const path = [join(folder, 'bin'), process.env['PATH']].join(delimiter)
  const install = (...folders: readonly string[]): readonly [number | null, string] => {
    const { status, stdout } = spawnSync(
      process.execPath,
      [join(root, 'scripts/install.ts'), ...folders],
      { cwd: folder, encoding: 'utf8', env: { ...process.env, PATH: path } }
    )
    return [status, stdout]
  }
  const callsOf = (name: string): string =>
    readFileSync(join(folder, name, 'node_modules/.package-lock.json'), 'utf8')

  t.strictSame(install('one'), [
    0,
    '# installing the packages of one/, once: npm ci --prefix one\n'
  ])
  t.equal(callsOf('one'), 'ci --prefix one --no-audit --loglevel=error\n')
  t.strictSame(install('one', 'two'), [
    0,
    '# installing the packages of two/, once: npm ci --prefix two\n'
  ], 'the first folder is skipped')
  const later = Date.now() / 1000 + 60
  utimesSync(join(folder, 'one/package-lock.json'), later, later)
  t.equal(install('one', 'two')[0], 0)
  const call = 'ci --prefix one --no-audit --loglevel=error\n'
  t.equal(callsOf('one'), call.repeat(2), 'its packages were outdated')
  t.equal(callsOf('two'), 'ci --prefix two --no-audit --loglevel=error\n')
  t.match(install('broken', 'one'), [1, /broken/], 'npm failed')
})

interface Manifest {
  readonly private?: boolean
  readonly allowScripts?: Readonly<Record<string, boolean>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

interface Lock {
  readonly packages: Readonly<
    Record<string, { readonly name?: string, readonly hasInstallScript?: true }>
  >
}

t.test('all packages have exact versions, and each install script is decided on', async t => {
  for (const folder of ['.', 'bench', 'test/matrix']) {
    const read = (file: string): string => readFileSync(join(root, folder, file), 'utf8')
    const manifest = JSON.parse(read('package.json')) as Manifest
    const versions = { ...manifest.dependencies, ...manifest.optionalDependencies }
    for (const [name, version] of Object.entries(versions)) {
      t.match(version, /^(npm:.+@)?\d+\.\d+\.\d+(-[\w.]+)?$/, `${folder}: ${name}`)
    }
    const { packages } = JSON.parse(read('package-lock.json')) as Lock
    const scripts = Object.entries(packages)
      .filter(([, { hasInstallScript }]) => hasInstallScript)
      .map(([path, { name }]) => name ?? path.replace(/.*node_modules\//, ''))
    const decided = Object.keys(manifest.allowScripts ?? {})
    t.strictSame(scripts.filter(name => !decided.includes(name)), [], `${folder}: install scripts`)
    if (folder !== '.') t.equal(manifest.private, true, `${folder} is never published`)
    t.equal(read('.npmrc'), readFileSync(join(root, '.npmrc'), 'utf8'), `${folder}: npm settings`)
  }
})
