/**
 * Tests that templates of statements are limited by their bytes, over all plans and variants.
 */
import t from 'tap'
import type { Plan } from '../../../src/plan/nodes.ts'
import { createTemplate, type Template } from '../../../src/sql/statement/template.ts'
import type { Statement } from '../../../src/sql/statement/statement.ts'
import { TemplateCache } from '../../../src/sql/template-cache.ts'

type Templates = ReadonlyArray<Template<Statement> | undefined>

interface Variant {
  readonly database?: number
  readonly types?: readonly unknown[]
}

const MAX_BYTES = 8 * 1024 * 1024
const newPlan = (): Plan => ({}) as Plan

function useCache (): {
  readonly cache: TemplateCache<Templates>
  find(plan: Plan, bytes: number, variant?: Variant): number
} {
  const cache = new TemplateCache<Templates>(templates => templates)
  return {
    cache,
    /** Returns how many times the templates were created. */
    find (plan, bytes, { database, types = [] } = {}) {
      let created = 0
      cache.find(plan, { database, types }, () => {
        created++
        const parameters = ['x'.repeat(bytes / 4)]
        const statement = { text: 'x'.repeat(bytes / 4), parameters, prepare: true }
        return [undefined, createTemplate(statement)]
      })
      return created
    }
  }
}

t.test('templates are found until others need their memory', async t => {
  const { cache, find } = useCache()
  const plan = newPlan()
  const HALF = 512 * 1024
  t.equal(find(plan, HALF), 1)
  t.equal(find(plan, HALF), 0)
  t.equal(find(plan, HALF, { database: 1 }), 1, 'another variant')
  for (let i = 0; i < 10; i++) find(newPlan(), HALF)
  t.equal(find(plan, HALF), 0, 'still there, and used last')
  for (let i = 0; i < 8; i++) find(newPlan(), HALF)
  t.equal(find(plan, HALF), 0)
  t.equal(find(plan, HALF, { database: 1 }), 1, 'not used for longer')
  t.ok(cache.bytes > 0.9 * MAX_BYTES && cache.bytes <= MAX_BYTES, `${cache.bytes} bytes`)
})

t.test('templates of former types give their memory back', async t => {
  const { cache, find } = useCache()
  const plan = newPlan()
  find(plan, 1000, { types: [{}] })
  const { bytes } = cache
  const types = [{}]
  t.equal(find(plan, 1000, { types }), 1)
  t.equal(find(plan, 1000, { types }), 0)
  t.equal(cache.bytes, bytes)
})

t.test('templates that are too large are not kept', async t => {
  const { cache, find } = useCache()
  const plan = newPlan()
  t.equal(find(plan, 2 * MAX_BYTES), 1)
  t.equal(find(plan, 2 * MAX_BYTES), 1)
  t.equal(cache.bytes, 0)
})
