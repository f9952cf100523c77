/**
 * Tests the vocabulary of the client. The client is a separate package without imports and repeats
 * names and limits of the service; they must equal those of the schemas.
 */
import t from 'tap'
import { preferHeader } from '../../../client/src/headers.ts'
import { $, OneflightError } from '../../../client/src/index.ts'
import * as words from '../../../client/src/words.ts'
import { ErrorObject } from '../../../schemas/error.ts'
import { bareKey, maxKeyLength } from '../../../schemas/http.ts'
import { modifiers } from '../../../schemas/modifier.ts'
import { maxDepth, operationId } from '../../../schemas/operation.ts'
import { operators } from '../../../schemas/operator.ts'
import { preferenceItems, renderPreference } from '../../../schemas/prefer.ts'

t.test('operators and their operands equal those of the service', async t => {
  t.same(
    words.operators,
    Object.fromEntries(Object.entries(operators).map(([name, { takes }]) => [name, takes]))
  )
})

t.test('$ has every modifier, both quantifiers and notNull', async t => {
  t.same(
    Object.keys($).sort(),
    [...Object.keys(modifiers).map(name => name.slice(1)), 'any', 'all', 'notNull'].sort()
  )
})

t.test('every preference can be expressed, and only valid values are sent', async t => {
  const all = { dryRun: true, readOnly: true, explain: true, timing: true } as const
  const sent = [
    ...(['read-committed', 'repeatable-read', 'serializable'] as const).map(isolation =>
      preferHeader({ ...all, isolation })
    ),
    ...(['representation', 'minimal'] as const).map(answer => preferHeader({ return: answer }))
  ].flatMap(header => header?.split(', ') ?? [])
  const known = [...preferenceItems].flatMap(([name, { anyOf }]) =>
    anyOf.map(({ const: value }) => renderPreference(name, value))
  )
  // The client sends neither defaults nor handling=lenient.
  const unused = ['tx=commit', 'access=read-write', 'explain=off', 'timing=off', 'handling=lenient']
  t.same(known.filter(word => !unused.includes(word) && !sent.includes(word)), [])
  t.same([...new Set(sent)].filter(word => !known.includes(word)), [])
})

t.test('limits and patterns equal those of the service', async t => {
  t.equal(words.maxDepth, maxDepth)
  t.equal(words.operationId.source, operationId.source)
  const keys = [
    'a', '!', '~', 'a'.repeat(maxKeyLength), 'a'.repeat(maxKeyLength + 1), '', '"', '"a"', 'a"',
    ' a', 'a b', 'é', '\u007f'
  ]
  for (const key of keys) {
    t.equal(
      words.idempotencyKey.test(key),
      bareKey.test(key) && key.length <= maxKeyLength,
      JSON.stringify(key)
    )
  }
})

t.test('OneflightError has every member of the error object', async t => {
  const error = new OneflightError({ code: 'x', message: 'y' })
  const names = Object.keys(ErrorObject.properties).map(name =>
    name === 'request_id' ? 'requestId' : name
  )
  t.same(names.filter(name => !(name in error)), [])
})
