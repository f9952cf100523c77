import regexp from 'eslint-plugin-regexp'
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
  // Texts from outside meet regular expressions: each takes linear time, wherever a match begins.
  {
    files: ['{client/src,plugins,schemas,src}/**'],
    plugins: { regexp },
    rules: {
      'regexp/no-super-linear-backtracking': ['error', { report: 'potential' }],
      'regexp/no-super-linear-move': ['error', { report: 'potential', ignorePartial: false }]
    }
  },
  // A schema and the type derived from it share one name, as TypeBox's own docs write it.
  { files: ['schemas/**'], rules: { '@typescript-eslint/no-redeclare': 'off' } }
]
