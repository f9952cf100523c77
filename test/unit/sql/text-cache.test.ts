/**
 * The text of a statement by its shape, whatever was asked for before: shapes that begin alike,
 * that differ in numbers alone, that are too long or too many to be remembered.
 */
import fc from 'fast-check'
import t from 'tap'
import {
  empty,
  identifier,
  integer,
  join,
  parameter,
  render,
  sharedParameter,
  sql,
  type Fragment
} from '../../../src/sql/fragment.ts'

/** A fragment with the text and the parameters that it has to come to, written the plain way. */
interface Made {
  readonly fragment: Fragment
  write(parameters: string[], shared: Map<string, number>): string
}

const shared = ['x', 'y'].map(value => ({ value, fragment: sharedParameter(value) }))
const leaves: ReadonlyArray<fc.Arbitrary<Made>> = [
  fc.constant({ fragment: empty, write: () => '' }),
  fc.constant({ fragment: sql`a`, write: () => 'a' }),
  fc.constantFrom('a', 'b', 'a"b').map(name => ({
    fragment: identifier(name),
    write: () => `"${name.replaceAll('"', '""')}"`
  })),
  fc.integer({ min: -3, max: 3 }).map(value => ({
    fragment: integer(value),
    write: () => String(value)
  })),
  fc.constantFrom('p', 'q').map(value => ({
    fragment: parameter(value),
    write: parameters => `$${parameters.push(value)}`
  })),
  fc.constantFrom(...shared).map(({ value, fragment }) => ({
    fragment,
    write (parameters, numbers) {
      const number = numbers.get(value) ?? parameters.push(value)
      numbers.set(value, number)
      return `$${number}`
    }
  }))
]
const { made } = fc.letrec<{ made: Made }>(tie => ({
  made: fc.oneof(
    { depthSize: 'medium' },
    ...leaves,
    tie('made').map(({ fragment, write }): Made => ({
      fragment: sql`(${fragment})`,
      write: (...known) => `(${write(...known)})`
    })),
    fc.tuple(tie('made'), tie('made')).map(([a, b]): Made => ({
      fragment: sql`${a.fragment} + ${b.fragment}`,
      write: (...known) => `${a.write(...known)} + ${b.write(...known)}`
    })),
    fc.array(tie('made'), { maxLength: 4 }).map((items): Made => ({
      fragment: join(items.map(({ fragment }) => fragment), sql`, `),
      write: (...known) => items.map(({ write }) => write(...known)).join(', ')
    }))
  )
}))

t.test('it is what it is put together of', async t => {
  fc.assert(
    fc.property(made, ({ fragment, write }) => {
      const parameters: string[] = []
      const text = write(parameters, new Map())
      t.strictSame(render(fragment), { text, parameters })
      t.strictSame(render(fragment), { text, parameters }, 'and again')
    }),
    { numRuns: 500 }
  )
})

t.test('long ones, and more of them than are remembered', async t => {
  const items = Array.from({ length: 60_000 }, (_, i) => `c${i}`)
  t.equal(
    render(join(items.map(identifier), sql`,`)).text,
    items.map(item => `"${item}"`).join(',')
  )
  for (const round of ['first', 'second']) {
    t.ok(
      items.every(item => render(sql`select ${identifier(item)}`).text === `select "${item}"`),
      round
    )
  }
})
