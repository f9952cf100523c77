/**
 * The client is published alone, so it has words of the language of its own: they are those of the
 * service's schemas, and it imports nothing.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { $, OneflightError } from '../../../client/src/index.ts'
import { preferHeader } from '../../../client/src/headers.ts'
import * as words from '../../../client/src/words.ts'
import { operators } from '../../../schemas/operator.ts'
import { bareKey, maxKeyLength } from '../../../schemas/idempotency.ts'
import { modifiers } from '../../../schemas/modifier.ts'
import { maxDepth, operationId } from '../../../schemas/operation.ts'
import { preferenceItems, renderPreference } from '../../../schemas/prefer.ts'
import { ErrorObject } from '../../../schemas/error.ts'

const client = join(import.meta.dirname, '../../../client')

t.test('operators and what they take', async t => {
  t.same(
    words.operators,
    Object.fromEntries(Object.entries(operators).map(([name, { takes }]) => [name, takes]))
  )
})

t.test('modifiers, and the two quantifiers of operands', async t => {
  t.same(
    Object.keys($).sort(),
    [...Object.keys(modifiers).map(name => name.slice(1)), 'any', 'all'].sort()
  )
})

t.test('every preference can be said, and no other value of one', async t => {
  const all = { dryRun: true, readOnly: true, explain: true, timing: true } as const
  const said = [
    ...(['read-committed', 'repeatable-read', 'serializable'] as const).map(isolation =>
      preferHeader({ ...all, isolation })
    ),
    ...(['representation', 'minimal'] as const).map(answer => preferHeader({ return: answer }))
  ].flatMap(header => header?.split(', ') ?? [])
  const known = [...preferenceItems].flatMap(([name, { anyOf }]) =>
    anyOf.map(({ const: value }) => renderPreference(name, value))
  )
  // What a batch does anyhow needs no words, and the client never asks to be misunderstood.
  const unsaid = ['tx=commit', 'access=read-write', 'explain=off', 'timing=off', 'handling=lenient']
  t.same(known.filter(word => !unsaid.includes(word) && !said.includes(word)), [])
  t.same([...new Set(said)].filter(word => !known.includes(word)), [])
})

t.test('limits and forms', async t => {
  t.equal(words.maxDepth, maxDepth)
  t.equal(words.operationId.source, operationId.source)
  for (
    const key of [
      'a',
      '!',
      '~',
      'a'.repeat(maxKeyLength),
      'a'.repeat(maxKeyLength + 1),
      '',
      '"',
      '"a"',
      'a"',
      ' a',
      'a b',
      'é',
      '\u007f'
    ]
  ) {
    t.equal(
      words.idempotencyKey.test(key),
      bareKey.test(key) && key.length <= maxKeyLength,
      JSON.stringify(key)
    )
  }
})

t.test('an error has all that the envelope has', async t => {
  const error = new OneflightError({ code: 'x', message: 'y' })
  const names = Object.keys(ErrorObject.properties).map(name =>
    name === 'request_id' ? 'requestId' : name
  )
  t.same(names.filter(name => !(name in error)), [])
})

t.test('the client imports only itself, and touches nothing that a browser lacks', async t => {
  for (const file of readdirSync(join(client, 'src'))) {
    const text = readFileSync(join(client, 'src', file), 'utf8')
    t.same(
      [...text.matchAll(/(?:from|import\()\s*'([^']*)'/g)].map(([, path]) => path).filter(path =>
        !/^\.\/[\w-]+\.ts$/.test(path ?? '')
      ),
      [],
      file
    )
    t.notMatch(
      text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, ''),
      /\b(?:process|Buffer|require|global)\b|export \*/,
      file
    )
  }
  const { dependencies, peerDependencies } = JSON.parse(
    readFileSync(join(client, 'package.json'), 'utf8')
  ) as Record<string, unknown>
  t.same([dependencies, peerDependencies], [undefined, undefined])
})
