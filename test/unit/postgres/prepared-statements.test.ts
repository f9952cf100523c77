/**
 * Tests how many statements a connection prepares, over several groups.
 */
import t from 'tap'
import { noPreparedStatements, toRequests } from '../../../src/postgres/prepared-statements.ts'

t.test('a connection keeps the 128 texts that were used last', t => {
  const connection = { prepared: noPreparedStatements(), prepares: true }
  const { names, replaced } = connection.prepared
  const statements = Array.from(
    { length: 200 },
    (_, i) => ({ text: `text ${i}`, parameters: [], prepare: true })
  )
  /** Returns the texts that were prepared, and the names that were closed. */
  const send = (list: typeof statements): { prepared: string[], closed: readonly string[] } => {
    const requests = toRequests(connection, list)
    const closed = requests.flatMap(({ closes = [] }) => closes)
    replaced.splice(0, closed.length)
    const prepared = requests.filter(({ name, parse }) => name !== '' && parse)
    for (const { text, name } of prepared) names.set(text, name)
    return { prepared: prepared.map(({ text }) => text), closed }
  }
  t.match(send(statements), { prepared: [], closed: [] }, 'none on first use')
  t.equal(send(statements.slice(0, 128)).prepared.length, 128)
  const first = names.get('text 0')
  const second = names.peek('text 1')
  t.same(send(statements.slice(0, 1)), { prepared: [], closed: [] })
  t.same(send(statements.slice(128, 129)), { prepared: ['text 128'], closed: [] })
  t.same(send(statements.slice(0, 1)), { prepared: [], closed: [second] }, 'the next group')
  t.equal(names.get('text 0'), first)
  t.same(send(statements.slice(1, 2)), { prepared: ['text 1'], closed: [] }, 'prepared again')
  t.equal(names.size, 128)
  t.end()
})
