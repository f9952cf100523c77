import neostandard, { resolveIgnoresFromGitignore } from 'neostandard'

export default [
  ...neostandard({ ts: true, ignores: resolveIgnoresFromGitignore() }),
  // A schema and the type derived from it share one name, as TypeBox's own docs write it.
  { files: ['schemas/**'], rules: { '@typescript-eslint/no-redeclare': 'off' } }
]
