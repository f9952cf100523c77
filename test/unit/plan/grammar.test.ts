/**
 * Tests that the planner accepts and rejects the same operations as TypeBox does with the same
 * schemas.
 */
import { Value } from '@sinclair/typebox/value'
import fc from 'fast-check'
import t from 'tap'
import type { Issue } from '../../../schemas/error.ts'
import { modifiers } from '../../../schemas/modifier.ts'
import { ColumnOperand, operands } from '../../../schemas/operand.ts'
import { operations, type OperationKind } from '../../../schemas/operation.ts'
import { operators } from '../../../schemas/operator.ts'
import { Failure } from '../../../src/errors/catalogue.ts'
import { parseJson } from '../../../src/json/parse.ts'
import { readShape } from '../../../src/plan/batch-shape.ts'
import { planBatch } from '../../../src/plan/plan-batch.ts'

const limits = {
  schemas: ['public'] as const,
  maxRows: 100,
  maxBytes: 100_000,
  maxConditions: 100
}

/** The issues of an operation `o` that follows an operation `a`. */
function issuesOf (operation: object): readonly Issue[] {
  try {
    planBatch([{ id: 'a', op: 'select', table: 't' }, { id: 'o', ...operation }] as never, limits)
    return []
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return error.details.errors ?? []
  }
}

/**
 * Codes of rules that a schema cannot express, such as the target of a reference or the total
 * depth.
 */
const beyondSchema = new Set([
  'reference_unknown',
  'reference_malformed',
  'depth_exceeded',
  'rows_limit'
])

const filler = fc.constantFrom<unknown>(
  'x',
  1,
  1.5,
  true,
  null,
  '$a.id',
  '$a.*.id',
  '',
  [],
  ['x'],
  [1, '$a.0.id'],
  [1, 2],
  [null],
  {},
  { $col: 'b' },
  { $col: 'b', x: 1 },
  { $value: [1] },
  { any: [1] },
  { all: [] },
  { any: [1], all: [1] },
  { $cool: 'b' },
  { table: 't', on: { a: 'b' } },
  { table: 't', on: { a: 'b' }, where: { a: { eq: 1 } } },
  { table: 't', on: {}, where: { a: {} } },
  { query: 'x' },
  { query: 'x', config: 'y' },
  { config: 'y' },
  { eq: 1 },
  { a: 1 },
  'not_null',
  'unknown',
  'asc',
  'update',
  { mode: 'share' },
  { mode: 'x' },
  { min: 1 },
  { min: -1 },
  { min: 1, max: 2 },
  [{ a: 'asc' }],
  [{ a: { nulls: 'last' } }],
  [{ a: {} }],
  [{ fn: 'count' }],
  [{ column: 'a', as: 'b' }],
  [{ fn: 'median', column: 'a' }],
  { columns: ['a'], do: 'nothing' },
  {
    columns: ['a'],
    do: 'update',
    set: { a: { $inc: 1 } },
    where: { a: { lt: { $excluded: 'a' } } }
  }
)
const operatorMap = fc.dictionary(
  fc.constantFrom(...Object.keys(operators), 'not', 'equals'),
  filler,
  { minKeys: 1, maxKeys: 2 }
)
const filter = fc.dictionary(
  fc.constantFrom('a', 'b->c', 'and', 'or', 'not', 'exists', 'not_exists'),
  fc.oneof(
    operatorMap,
    filler,
    fc.array(fc.dictionary(fc.constantFrom('a', 'not'), operatorMap, { maxKeys: 2 }), {
      maxLength: 2
    })
  ),
  { minKeys: 1, maxKeys: 2 }
)
const operation = fc.constantFrom<OperationKind>('insert', 'update', 'delete', 'select').chain(
  op => {
    const members = Object.keys(operations[op].properties).filter(name =>
      !['id', 'op', 'table', 'values', 'set', 'where'].includes(name)
    )
    const keyed = { key: ['id', { column: 'a', as: 'b' }], values: [{ id: 1, b: 1, c: 1 }] }
    const required = {
      insert: [{ values: [{ a: 1 }] }],
      update: [{ set: { a: 1 } }, keyed],
      delete: [{}],
      select: [{}],
      call: []
    }
    return fc.record({
      plain: fc.constantFrom<object>(...required[op]),
      where: op === 'insert' ? fc.constant(undefined) : filter,
      extra: fc.dictionary(fc.constantFrom(...members), filler, { maxKeys: 2 })
    })
      .map(({ plain, where, extra }) => ({
        id: 'o',
        op,
        table: 't',
        ...plain,
        ...where === undefined ? {} : { where },
        ...extra
      }))
  }
)

t.test('property: the planner and TypeBox agree', async t => {
  const counts = { valid: 0, invalid: 0 }
  fc.assert(
    fc.property(operation, operation => {
      const issues = issuesOf(operation)
      const valid = Value.Check(operations[operation.op], operation)
      if (valid) counts.valid++
      else counts.invalid++
      // A valid operation may break a rule that schemas cannot express. An invalid one is always
      // rejected.
      return valid
        ? issues.every(({ code }) =>
          beyondSchema.has(code) || code === 'member_invalid' || code === 'member_missing' ||
          code === 'operand_invalid' || code === 'where_empty'
        )
        : issues.length > 0
    }),
    { numRuns: 5000 }
  )
  t.ok(counts.valid > 200 && counts.invalid > 200, JSON.stringify(counts))
})

t.test('property: an exact number in any place causes no internal error', async t => {
  const number = parseJson(Buffer.from('1e300'))
  let issues = 0
  fc.assert(
    // The operation, its id and its kind are checked before.
    fc.property(operation, fc.integer({ min: 3, max: 20 }), (operation, place) => {
      const text = JSON.stringify(operation, (_, value) => place-- === 0 ? number : value)
      const read = parseJson(Buffer.from(text)) as object
      readShape([read] as never, 100)
      issues += issuesOf(read).length
    }),
    { numRuns: 5000 }
  )
  t.ok(issues > 1000, `${issues} issues`)
})

t.test('each operator accepts the operands of its schema, and no modifier takes null', async t => {
  const samples: Readonly<Record<keyof typeof operands, readonly unknown[]>> = {
    comparand: [
      'x',
      1,
      true,
      '$a.0.id',
      { $col: 'b' },
      { any: [1, '$a.id'] },
      { all: '$a.*.id' },
      { $value: {} }
    ],
    distinct: [null, 'x', { $col: 'b' }],
    list: [[1], [], '$a.*.id'],
    nonEmptyList: [[1], '$a.*.id'],
    bounds: [[1, 2], ['$a.id', { $col: 'b' }]],
    keyword: [null, 'not_null', true, false, 'unknown'],
    search: ['x', { query: '$a.name', config: 'simple' }],
    json: [
      'x',
      1,
      true,
      [],
      {},
      [1],
      { a: ['$a.id'] },
      { $col: 'b' },
      { $value: { $col: 1 } },
      '$a.*.id'
    ],
    key: ['x', '$a.name'],
    keys: [['x'], '$a.*.name']
  }
  for (const [name, { takes }] of Object.entries(operators)) {
    for (const operand of samples[takes]) {
      t.same(
        issuesOf({ op: 'select', table: 't', where: { c: { [name]: operand } } }),
        [],
        `${name} accepts ${JSON.stringify(operand)}`
      )
      t.ok(Value.Check(operands[takes].schema(ColumnOperand), operand))
    }
  }
  for (const name of Object.keys(modifiers)) {
    const issues = issuesOf({ op: 'update', table: 't', all: true, set: { c: { [name]: null } } })
    t.same(
      issues.map(({ code, path }) => [code, path]),
      name === '$value' ? [] : [['member_invalid', ['set', 'c', name]]],
      name
    )
  }
})
