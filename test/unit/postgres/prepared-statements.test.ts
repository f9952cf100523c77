/**
 * Tests how many statements a connection prepares, over several groups.
 */
import t from 'tap'
import {
  canPrepare,
  noPreparedStatements,
  toRequests
} from '../../../src/postgres/prepared-statements.ts'

t.test('statements to run and to describe share one bound', t => {
  const connection = { prepared: noPreparedStatements(), prepares: true, state: {} as never }
  const state = connection.state as { retired?: boolean }
  const texts = (prefix: string): readonly string[] =>
    Array.from({ length: 300 }, (_, i) => `${prefix} ${i}`)
  const general = texts('general').map(text => ({ text, parameters: [], prepare: true }))
  toRequests(connection, general)
  for (const text of texts('plain')) canPrepare(connection, text, 0)

  const plain: Array<{ readonly text: string, readonly parameters: readonly [] }> = []
  for (const text of texts('plain').slice(0, 200)) {
    if (canPrepare(connection, text, plain.length)) plain.push({ text, parameters: [] })
  }
  t.equal(plain.length, 200)
  const requests = toRequests(connection, [...general, ...plain])
  t.equal(requests.filter(({ name, describe }) => name !== '' && describe !== true).length, 50)
  t.equal(requests.filter(({ name, describe }) => name !== '' && describe === true).length, 200)
  t.equal(state.retired, true)

  for (const { text, name } of requests) if (name !== '') connection.prepared.names.set(text, name)
  t.equal(canPrepare(connection, 'plain 299', 0), false, 'the connection is full')
  t.equal(canPrepare({ ...connection, prepared: noPreparedStatements() }, 'plain 299', 249), true)
  t.equal(canPrepare({ ...connection, prepared: noPreparedStatements() }, 'plain 299', 250), false)
  t.end()
})
