/**
 * Tests how many statements a connection prepares, over several groups.
 */
import t from 'tap'
import { noPreparedStatements, toRequests } from '../../../src/postgres/prepared-statements.ts'

t.test('a connection prepares 250 texts that recur, and is then replaced', t => {
  const connection = { prepared: noPreparedStatements(), prepares: true, state: {} as never }
  const state = connection.state as { retired?: boolean }
  const statements = Array.from(
    { length: 300 },
    (_, i) => ({ text: `text ${i}`, parameters: [], prepare: true })
  )
  const send = (list: typeof statements): number => {
    const requests = toRequests(connection, list)
    for (const { text, name } of requests) {
      if (name !== '') connection.prepared.names.set(text, name)
    }
    return requests.filter(({ name }) => name !== '').length
  }
  t.equal(send(statements), 0)
  t.equal(send(statements.slice(0, 200)), 200)
  t.notOk(state.retired)
  t.equal(send(statements), 250)
  t.equal(state.retired, true)
  t.end()
})
