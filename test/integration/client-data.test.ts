/**
 * Tests that the client stores data unchanged, even if it looks like a reference, an escaped
 * reference, a modifier or an operand. Random data is written to the database and read back.
 * `PROPERTY_RUNS=5000` runs more cases, `SEED=n` repeats a run.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { $, type Generated, type Json } from '../../client/src/index.ts'
import { useClient } from '../support/client.ts'
import { propertyRuns } from '../support/runs.ts'
import { useService } from '../support/service.ts'

const runs = propertyRuns(40, 150)
const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)

interface Database {
  notes: {
    id: Generated<number>,
    text: string | null,
    data: Generated<Json>,
    texts: Generated<string[]>
  }
  secrets: { id: number, word: string }
}

const schema = `
  create table notes (id bigint generated always as identity primary key, text text, data jsonb,
    texts text[] not null default '{}');
  create table secrets (id int primary key, word text not null);
  insert into secrets values (1, 'hidden');`

const service = await useService(t, { schema, keys: true })

/**
 * Texts that have a meaning in the batch language: references to operations of the batch, malformed
 * references, and keywords.
 */
const hostileText = fc.oneof(
  fc.constantFrom(
    '$secret.0.word', '$secret.word', '$secret', '$secret.0', '$secret.*.word', '$$secret.0.word',
    '$op0.0.id', '$nobody', '$_', '$5.00', '$2b$10$abc', '$', '$$', '', '$secret.0.word\n', '"',
    '\\'
  ),
  fc.tuple(
    fc.integer({ min: 0, max: 4 }), fc.constantFrom('secret', 'note', 'op1', 'x'),
    fc.constantFrom('', '.', '.0', '.0.word', '.*.word', '.word', ' ', '.0.word.', '$', '[0].word')
  ).map(([signs, name, rest]) => '$'.repeat(signs) + name + rest),
  fc.tuple(fc.integer({ min: 1, max: 3 }), fc.constantFrom('secret', 'note', 'op1', 'x'))
    .map(([signs, name]) => `${'$'.repeat(signs)}{${name}.0.word}`),
  fc.string({ unit: 'grapheme' })
)
const hostileKey = fc.oneof(
  fc.constantFrom(
    '$inc', '$value', '$col', '$excluded', '$now', '$default', '$merge', '$append', '$remove',
    'any', 'all', 'query', 'and', 'not', '__proto__', 'constructor', '$'
  ),
  hostileText
)

/**
 * PostgreSQL stores neither U+0000 nor lone surrogates. jsonb has one zero and does not distinguish
 * 1 from 1.0.
 */
const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed()
const text = hostileText.filter(isStorable)
const { json } = fc.letrec<{ json: Json }>(tie => ({
  json: fc.oneof(
    { maxDepth: 3 }, text, fc.constantFrom(null, true, false), fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(value => value === 0 ? 0 : value),
    fc.array(tie('json'), { maxLength: 3 }),
    fc.dictionary(hostileKey.filter(isStorable), tie('json'), { maxKeys: 3, noNullPrototype: true })
  )
}))

t.test('texts and JSON are stored unchanged by values and set, and match as operands', async t => {
  const client = useClient<Database>(service)
  await fc.assert(
    fc.asyncProperty(text, json, fc.array(text, { maxLength: 3 }), async (word, value, words) => {
      const { data } = await client.batch(b => {
        const secret = b.select('secrets', { columns: ['word'] })
        const note = b.insert(
          'notes', { text: word, data: { value, secret: secret.row().word }, texts: words },
          { expect: 1 }
        )
        const id = note.row().id
        const same = { id: { eq: id } }
        return {
          secret,
          note,
          byText: b.select('notes', {
            where: {
              ...same,
              text: {
                eq: word, in: ['x', word], between: [word, word], not: { neq: $.any([word]) }
              },
              texts: { eq: words, cs: words }
            }
          }),
          byData: b.select('notes', {
            where: {
              ...same,
              data: { eq: { value, secret: 'hidden' }, cs: { value } },
              'data->value': value === null ? { eq: $.value('x') } : { eq: $.value(value) }
            }
          }),
          cleared: b.update('notes', { set: { text: null, data: null, texts: [] }, where: same }),
          set: b.update('notes', { set: { text: word, data: value, texts: words }, where: same }),
          marked: b.update('notes', {
            set: { data: $.value(value), texts: $.append(words) }, where: same
          }),
          merged: b.update('notes', {
            set: { data: $.merge({ a: value }) }, where: { ...same, data: { cs: {} } }
          }),
          deleted: b.delete('notes', { where: same })
        }
      })
      const twice = { text: word, data: value, texts: [...words, ...words] }
      assert.deepEqual(data.secret, [{ word: 'hidden' }])
      assert.deepEqual(data.note[0], {
        id: data.note[0].id, text: word, data: { value, secret: 'hidden' }, texts: words
      })
      assert.deepEqual(data.byText.length, 1, 'the text matches')
      assert.deepEqual(
        data.byData.length, value === null ? 0 : 1, 'the data matches unless it is NULL'
      )
      assert.deepEqual(data.set, [{ id: data.note[0].id, text: word, data: value, texts: words }])
      assert.deepEqual(data.marked, [{ id: data.note[0].id, ...twice }])
      assert.equal(data.deleted.length, 1)
    }),
    { numRuns: runs, seed }
  )
  t.pass(`${runs} batches`)
})
