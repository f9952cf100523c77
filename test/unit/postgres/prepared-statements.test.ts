/**
 * Tests how many statements a connection prepares, over several groups.
 */
import t from 'tap'
import { PreparedStatements } from '../../../src/postgres/prepared-statements.ts'

/** Longer texts are not kept. 46 of these fit into 16 MiB: a character takes 44 bytes. */
const TEXT_LENGTH = 8192
const COUNT = 46

t.test('a connection keeps the texts that were used last, up to 16 MiB in the server', t => {
  const prepared = new PreparedStatements()
  const { names, replaced } = prepared
  const statements = Array.from(
    { length: COUNT + 1 },
    (_, i) => ({ text: `text ${i}`.padEnd(TEXT_LENGTH), parameters: [], prepare: true })
  )
  const textOf = (i: number): string => statements[i]?.text as string
  /** Returns the texts that were prepared, and the names that were closed. */
  const send = (list: typeof statements): { prepared: string[], closed: readonly string[] } => {
    const requests = prepared.toRequests(list)
    const closed = requests.flatMap(({ closes = [] }) => closes)
    replaced.splice(0, closed.length)
    const added = requests.filter(({ name, parse }) => name !== '' && parse)
    for (const { text, name } of added) names.set(text, name)
    return { prepared: added.map(({ text }) => text), closed }
  }
  t.equal(send(statements.slice(0, COUNT)).prepared.length, COUNT)
  const first = names.get(textOf(0))
  const second = names.peek(textOf(1))
  t.same(send(statements.slice(0, 1)), { prepared: [], closed: [] })
  t.same(send(statements.slice(COUNT)), { prepared: [textOf(COUNT)], closed: [] })
  t.same(send(statements.slice(0, 1)), { prepared: [], closed: [second] }, 'the next group')
  t.equal(names.get(textOf(0)), first)
  t.same(send(statements.slice(1, 2)), { prepared: [textOf(1)], closed: [] }, 'prepared again')
  t.equal(names.size, COUNT)
  t.end()
})
