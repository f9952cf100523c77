/**
 * Tests that the schema of a tool has no references, except those of recursive schemas and those
 * that would make it too large.
 */
import t from 'tap'
import type { JsonObject } from '../../../src/json/parse.ts'
import { inlineReferences } from '../../../src/mcp/inline-references.ts'

const text = { type: 'string' }
const refer = (name: string, more = {}): JsonObject => ({ $ref: `#/$defs/${name}`, ...more })
/** An object schema with the parameter `p`. */
const takes = (p: unknown, $defs?: object): JsonObject =>
  ({ type: 'object', properties: { p }, ...$defs && { $defs } }) as unknown as JsonObject

const rows: ReadonlyArray<readonly [name: string, schema: JsonObject, inlined: JsonObject]> = [
  ['a definition', takes(refer('a'), { a: text }), takes(text)],
  ['a part', takes({ anyOf: [text, { $ref: '#/properties/p/anyOf/0' }] }),
    takes({ anyOf: [text, text] })],
  ['the older keyword', {
    ...takes({ $ref: '#/definitions/a' }), definitions: { a: text, unused: text }
  }, takes(text)],
  ['an escaped name', takes({ $ref: '#/$defs/a~1b%20c' }, { 'a/b c': text }), takes(text)],
  ['a whole schema', { $ref: '#/$defs/all', $defs: { all: takes(text) } } as JsonObject,
    takes(text)],
  ['a schema that is a boolean', takes(refer('a'), { a: true }), takes(true)],
  ['annotations beside it', takes(refer('a', { description: 'd' }), { a: { ...text, title: 't' } }),
    takes({ ...text, title: 't', description: 'd' })],
  ['other keywords beside it', takes(refer('a', { minLength: 1 }), { a: text }),
    takes({ allOf: [text], minLength: 1 })],
  ['keywords beside a boolean', takes(refer('a', { title: 't' }), { a: false }),
    takes({ allOf: [false], title: 't' })],
  ['data that looks like a reference', takes({ const: refer('a'), default: refer('a') }),
    takes({ const: refer('a'), default: refer('a') })],
  ['contentSchema', takes({ contentSchema: refer('a') }, { a: text }), takes({})],
  ['a recursive schema', takes(refer('a'), { a: { items: refer('a') }, b: text }),
    takes(refer('a'), { a: { items: refer('a') } })],
  [
    'schemas that contain each other',
    takes(refer('a'), { a: { items: refer('b') }, b: { items: refer('a') } }),
    takes(refer('a'), { a: { items: refer('b') }, b: { items: refer('a') } })
  ],
  [
    'a schema that contains a recursive one, which contains another',
    takes(refer('c'), {
      a: { prefixItems: [text, refer('d')], items: refer('a') },
      c: { items: refer('a') },
      d: text
    }),
    takes({ items: refer('a') }, { a: { prefixItems: [text, text], items: refer('a') } })
  ],
  ['the root', takes({ items: { $ref: '#' } }), takes({ items: { $ref: '#' } })]
]

t.test('referred schemas are written in place of references', async t => {
  for (const [name, schema, inlined] of rows) t.same(inlineReferences(schema), inlined, name)
})

t.test('the size is limited, and references beyond it stay', async t => {
  const levels = Array.from({ length: 40 }, (_, i) =>
    [`d${i}`, takes({ prefixItems: [refer(`d${i + 1}`), refer(`d${i + 1}`)] })] as const
  )
  const doubling = takes(refer('d0'), { ...Object.fromEntries(levels), d40: text })
  const inlined = inlineReferences(doubling)
  t.ok(JSON.stringify(inlined).length < JSON.stringify(doubling).length + 33_000)
  for (const [, name = ''] of JSON.stringify(inlined).matchAll(/"#\/\$defs\/(\w+)"/g)) {
    t.ok(Object.hasOwn(inlined['$defs'] as object, name), name)
  }
  const chain = Array.from({ length: 1000 }, (_, i) =>
    [`d${i}`, takes(refer(`d${i + 1}`))] as const
  )
  const long = takes(refer('d0'), { ...Object.fromEntries(chain), d1000: text })
  t.ok(JSON.stringify(inlineReferences(long)).length < JSON.stringify(long).length + 33_000)
})
