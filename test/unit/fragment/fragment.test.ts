/**
 * Tests how SQL is rendered.
 */
import fc from 'fast-check'
import t from 'tap'
import {
  constant,
  empty,
  identifier,
  integer,
  join,
  parameter,
  render,
  requestConstant,
  sharedParameter,
  sql,
  type Fragment
} from '../../../src/fragment/fragment.ts'

/** A fragment and a simple reference implementation of its text and parameters. */
interface Sample {
  readonly fragment: Fragment
  write(parameters: string[], shared: Map<string, number>): string
}

const shared = ['x', 'y'].map(value => ({ value, fragment: sharedParameter(value) }))
const leaves: ReadonlyArray<fc.Arbitrary<Sample>> = [
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
const { sample } = fc.letrec<{ sample: Sample }>(tie => ({
  sample: fc.oneof(
    { depthSize: 'medium' },
    ...leaves,
    tie('sample').map(({ fragment, write }): Sample => ({
      fragment: sql`(${fragment})`,
      write: (...args) => `(${write(...args)})`
    })),
    fc.tuple(tie('sample'), tie('sample')).map(([a, b]): Sample => ({
      fragment: sql`${a.fragment} + ${b.fragment}`,
      write: (...args) => `${a.write(...args)} + ${b.write(...args)}`
    })),
    fc.array(tie('sample'), { maxLength: 4 }).map((items): Sample => ({
      fragment: join(items.map(({ fragment }) => fragment), sql`, `),
      write: (...args) => items.map(({ write }) => write(...args)).join(', ')
    }))
  )
}))

t.test('property: a fragment renders as the concatenation of its parts', async t => {
  fc.assert(
    fc.property(sample, ({ fragment, write }) => {
      const parameters: string[] = []
      const text = write(parameters, new Map())
      t.strictSame(render(fragment), { text, parameters })
    }),
    { numRuns: 500 }
  )
})

t.test('a statement with a value of a request is marked', async t => {
  const value = "it's \\"
  const text = "select E'it''s \\\\'"
  t.strictSame(render(sql`select ${constant(value)}`), { text, parameters: [] })
  t.strictSame(
    render(sql`select ${join([requestConstant(value)], empty)}`),
    { text, parameters: [], unique: true }
  )
})
