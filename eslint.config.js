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
  // V8 allocates these functions in the old generation, and all that they reach with them. Then it
  // is garbage only for a major collection: once a fifth of the memory of each request.
  {
    files: ['{plugins,src}/**'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector: "AssignmentExpression[left.type='MemberExpression']" +
            '[right.type=/^(ArrowFunction|Function|Class)Expression$/]',
          message: 'Name the function by a const first: V8 would allocate it in the old generation.'
        },
        {
          selector: ':not(MethodDefinition, Property) > FunctionExpression[generator=true], ' +
            "ObjectExpression > Property[kind='get']",
          message: 'Write a function that is created once: V8 would allocate each in the old ' +
            'generation.'
        }
      ]
    }
  },
  // A schema and the type derived from it share one name, as TypeBox's own docs write it.
  { files: ['schemas/**'], rules: { '@typescript-eslint/no-redeclare': 'off' } }
]
