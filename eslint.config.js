import neostandard, { resolveIgnoresFromGitignore } from 'neostandard'

export default [
  ...neostandard({ ts: true, ignores: resolveIgnoresFromGitignore() }),
  // A regular expression cannot be broken over lines.
  {
    files: ['**/*.{js,ts}'],
    rules: {
      '@stylistic/max-len': ['error', { code: 100, ignoreUrls: true, ignoreRegExpLiterals: true }]
    }
  },
  // A schema and the type derived from it share one name, as TypeBox's own docs write it.
  { files: ['schemas/**'], rules: { '@typescript-eslint/no-redeclare': 'off' } }
]
