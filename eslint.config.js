import js from '@eslint/js'
import stylistic from '@stylistic/eslint-plugin'
import regexp from 'eslint-plugin-regexp'
import typescript from 'typescript-eslint'

const on = (prefix, ...rules) =>
  Object.fromEntries(rules.map(([name, ...options]) => [prefix + name, ['error', ...options]]))
const names = text => text.trim().split(/\s+/).map(name => [name])

/** Errors, beyond those that ESLint recommends. */
const errors = on(
  '',
  ...names(`accessor-pairs array-callback-return default-case-last no-eval no-extend-native
    no-extra-bind no-implied-eval no-labels no-lone-blocks no-multi-str no-new no-new-func
    no-new-wrappers no-object-constructor no-self-compare no-sequences no-template-curly-in-string
    no-throw-literal no-undef-init no-unmodified-loop-condition no-unreachable-loop
    no-useless-call no-useless-computed-key no-useless-rename no-useless-return no-var no-void
    prefer-promise-reject-errors symbol-description yoda`),
  ['camelcase', { properties: 'never', ignoreGlobals: true }],
  ['curly', 'multi-line'],
  ['eqeqeq', 'always', { null: 'ignore' }],
  ['new-cap', { capIsNew: false }],
  ['no-constant-condition', { checkLoops: false }],
  ['no-empty', { allowEmptyCatch: true }],
  ['no-return-assign', 'except-parens'],
  ['no-unneeded-ternary', { defaultAssignment: false }],
  ['object-shorthand', 'properties'],
  ['one-var', { initialized: 'never' }],
  ['prefer-const', { destructuring: 'all' }],
  ['prefer-regex-literals', { disallowRedundantWrapping: true }]
)

/** The layout of JavaScript Standard Style. */
const layout = on(
  '@stylistic/',
  ...names(`array-bracket-spacing arrow-spacing block-spacing comma-spacing comma-style
    computed-property-spacing eol-last func-call-spacing key-spacing keyword-spacing
    new-parens no-floating-decimal no-mixed-spaces-and-tabs no-tabs no-trailing-spaces
    no-whitespace-before-property rest-spread-spacing semi-spacing
    space-before-blocks space-before-function-paren space-in-parens space-infix-ops
    space-unary-ops template-curly-spacing template-tag-spacing`),
  ['brace-style', '1tbs', { allowSingleLine: true }],
  ['comma-dangle', 'never'],
  ['dot-location', 'property'],
  ['generator-star-spacing', 'both'],
  ['indent', 2, {
    // With the second, type arguments in a conditional type may be indented like its branch.
    ignoredNodes: ['TemplateLiteral *', 'JSXOpeningElement'],
    offsetTernaryExpressions: true,
    SwitchCase: 1
  }],
  ['lines-between-class-members', 'always', { exceptAfterSingleLine: true }],
  // A regular expression cannot be broken over lines.
  ['max-len', { code: 100, ignoreUrls: true, ignoreRegExpLiterals: true }],
  ['multiline-ternary', 'always-multiline'],
  ['no-extra-parens', 'functions'],
  ['no-mixed-operators', {
    groups: [['==', '!=', '===', '!==', '>', '>=', '<', '<='], ['&&', '||'], ['in', 'instanceof']]
  }],
  ['no-multi-spaces', { ignoreEOLComments: true, includeTabs: true }],
  ['no-multiple-empty-lines', { max: 1, maxBOF: 0, maxEOF: 0 }],
  ['object-curly-newline', { multiline: true, consistent: true }],
  ['object-curly-spacing', 'always'],
  ['object-property-newline', { allowMultiplePropertiesPerLine: true }],
  ['operator-linebreak', 'after', { overrides: { '?': 'before', ':': 'before' } }],
  ['padded-blocks', 'never'],
  ['quote-props', 'as-needed'],
  ['quotes', 'single', { avoidEscape: true }],
  ['semi', 'never'],
  ['spaced-comment', 'always', { block: { balanced: true, exceptions: ['*'] } }],
  ['wrap-iife', 'any', { functionPrototypeMethods: true }],
  ['yield-star-spacing', 'both']
)

const ofTypescript = on(
  '@typescript-eslint/',
  ...names('no-array-constructor no-dupe-class-members no-redeclare no-useless-constructor'),
  ['no-unused-vars', { args: 'none', caughtErrors: 'none', ignoreRestSiblings: true }],
  ['no-unused-expressions', { allowShortCircuit: true, allowTernary: true }],
  ['no-use-before-define', { functions: false, classes: false, variables: false }]
)

export default [
  { ignores: ['**/{dist,coverage,.tap,.data,.unpacked}/'] },
  js.configs.recommended,
  { plugins: { '@stylistic': stylistic }, rules: { ...errors, ...layout } },
  ...typescript.config({
    files: ['**/*.ts'],
    extends: [typescript.configs.base, typescript.configs.eslintRecommended],
    rules: { 'no-redeclare': 'off', 'no-unused-vars': 'off', ...ofTypescript }
  }),
  { files: ['**/*.{mjs,js}'], languageOptions: { globals: { process: 'readonly' } } },
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
