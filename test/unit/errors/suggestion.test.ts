/**
 * Tests which known name is offered for a misspelled one.
 */
import t from 'tap'
import { closestName, suggest } from '../../../src/errors/suggestion.ts'

t.test('a name is near if it shares its beginning with a known name, or all but one letter', t => {
  const known = ['id', 'where', 'columns', 'has_key', 'has_keys_any']
  const rows = [
    ['wheer', 'where'],
    ['WHERE', 'where'],
    ['id_column', 'id'],
    ['colum', 'columns'],
    ['has_keys', 'has_keys_any'],
    ['has_key_', 'has_key'],
    ['has__ky', 'has_key'],
    ['here', 'where'],
    ['xwhere', 'where'],
    ['wXere', 'where'],
    ['clumns', 'columns'],
    ['cooler', undefined],
    ['w', undefined],
    ['i', undefined],
    ['', undefined],
    ['order', undefined]
  ] as const
  for (const [name, near] of rows) t.equal(suggest(name, known), near, name)
  t.end()
})

t.test('the closest name has the longest common prefix, then the longest common end', t => {
  t.equal(closestName('MAX_OP', ['MAX_ROWS', 'MAX_OPS', 'JWT_AUD']), 'MAX_OPS')
  t.equal(closestName('MAX_OPSIZE', ['MAX_OP_COUNT', 'MAX_OP_SIZE']), 'MAX_OP_SIZE')
  t.equal(closestName('MAX', ['MAX_ROWS', 'MAX_OPS']), 'MAX_ROWS')
  t.equal(closestName('other', ['a', 'b']), 'a')
  t.end()
})
