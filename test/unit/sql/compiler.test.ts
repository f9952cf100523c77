/**
 * The statements of a named batch are compiled once, and each request gets those of its own
 * parameters, session and preferences.
 */
import t from 'tap'
import type { Preferences } from '../../../schemas/prefer.ts'
import type { Identity } from '../../../schemas/token.ts'
import type { JsonObject } from '../../../src/json/parse.ts'
import { planNamed, type NamedBatch } from '../../../src/named/named-batch.ts'
import { readNamedBatch } from '../../../src/named/read-files.ts'
import type { Plan } from '../../../src/plan/plan.ts'
import type { PlannedBatch } from '../../../src/plan/plan-batch.ts'
import { compile } from '../../../src/sql/compile.ts'
import { Compiler, type BatchRequest } from '../../../src/sql/compiler.ts'
import type { Key } from '../../../src/sql/frame/idempotency.ts'
import {
  type Statement,
  fillStatement
} from '../../../src/sql/statement/statement.ts'

const limits = { schemas: ['public'], maxOps: 3, maxRows: 10, maxConditions: 10 }
const file = {
  params: { type: 'object', properties: { x: true }, required: ['x'] },
  operations: [
    { id: 'f', op: 'call', function: 'f', args: { a: '$params.x' } },
    { id: 'i', op: 'insert', table: 't', values: [{ a: '$params.x' }] },
    { id: 's', op: 'select', table: 't', where: { 'a->>b': { eq: '$params.x' } } }
  ]
}

/** A batch that tells whether it was compiled since it was asked last. */
function useBatch () {
  const read = readNamedBatch('b.json', Buffer.from(JSON.stringify(file)), limits)
  const { batch } = read as { readonly batch: NamedBatch }
  let isCompiled = false
  const watch = (plan: Plan): Plan => ({
    ...plan,
    operations: plan.operations.map(operation =>
      new Proxy(operation, {
        get (target, name) {
          // Only the compiler reads it.
          if (name === 'index') isCompiled = true
          return Reflect.get(target, name)
        }
      })
    )
  })
  const plans = new Map<Plan, Plan>()
  return {
    read (x: unknown): PlannedBatch {
      const planned = planNamed(batch, { x } as JsonObject, 100)
      const plan = plans.get(planned.plan) ?? watch(planned.plan)
      plans.set(planned.plan, plan)
      return { ...planned, plan }
    },
    isCompiled () {
      const before = isCompiled
      isCompiled = false
      return before
    }
  }
}

const preferences: Preferences = {
  tx: 'commit',
  isolation: 'read-committed',
  access: 'read-write',
  return: 'representation',
  explain: 'off',
  timing: 'off',
  handling: 'lenient'
}
const alice = { role: 'customer', claims: '{"sub":"alice"}' }
const bob = { role: 'clerk', claims: '{"sub":"bob"}' }
const minimal = { ...preferences, return: 'minimal' } as const
const key = { text: 'k' } as Key

interface Asked {
  readonly x?: unknown
  readonly identity?: Pick<Identity, 'role' | 'claims'>
  readonly preferences?: Preferences
  readonly idempotencyKey?: Key
}

const columns = (oid: number): string =>
  JSON.stringify([{
    schema: 'public',
    name: 't',
    columns: [['a', oid, -1, 'b', 'pg_catalog', 'x', 'U', 0]]
  }])
const functions = (type: string): string =>
  JSON.stringify([{
    schema: 'public',
    name: 'f',
    version: type,
    types: [],
    variants: [{
      defaults: 0,
      parameters: [['a', 'pg_catalog', type, 'b', 'i', 0]],
      runsCode: true,
      oid: 1,
      isVoid: false
    }]
  }])

const settings = {
  schemas: ['public'],
  statementTimeoutMs: 1000,
  lockTimeoutMs: 1000,
  idleTimeoutMs: 1000,
  maxRows: 10,
  maxBytes: 100_000,
  sqlComments: false
}

/** Compiles requests of one batch, and what they should be: compiled for each request alone. */
function useRequests () {
  const { read, isCompiled } = useBatch()
  const compiler = new Compiler(settings)
  const { columnTypes, functionTypes } = compiler
  functionTypes.remember(functions('int4'))
  const request = ({ x: _, ...asked }: Asked): BatchRequest => ({
    id: 'r',
    preferences,
    idempotencyKey: undefined,
    trace: undefined,
    ...asked,
    identity: asked.identity ?? alice
  } as BatchRequest)
  return {
    columnTypes,
    functionTypes,
    isCompiled,
    compile: (asked: Asked): readonly Statement[] =>
      compiler.compile(read(asked.x ?? 1), request(asked)).operations(),
    alone ({ x = 1, ...asked }: Asked): readonly Statement[] {
      const { preferences, idempotencyKey } = request(asked)
      const { plan, values } = read(x)
      const statements = compile(plan, {
        maxRows: 10,
        maxBytes: 100_000,
        minimal: preferences.return === 'minimal',
        keep: idempotencyKey !== undefined,
        findColumns: table => columnTypes.lookup(table),
        findFunction: name => functionTypes.lookup(name)
      })
      isCompiled()
      return statements.map(statement => fillStatement(statement, values))
    }
  }
}

/** Whether a value is a parameter, as JSON or as its text. */
function hasText ({ parameters }: Statement, value: unknown): boolean {
  return parameters.includes(JSON.stringify(value)) ||
    (typeof value === 'string' && parameters.includes(value))
}

t.test('each request has the statements of its parameters and preferences', async t => {
  const { compile, alone } = useRequests()
  const requests: readonly Asked[] = [
    { x: 1 },
    { x: '"2" $params.x', identity: bob },
    { x: 3, preferences: minimal },
    { x: 4, idempotencyKey: key },
    { x: 5, identity: bob, preferences: minimal, idempotencyKey: key },
    { x: 6 }
  ]
  const texts = new Set<string>()
  for (const asked of requests) {
    const statements = compile(asked)
    t.same(statements, alone(asked), JSON.stringify(asked))
    t.ok(statements.every(statement => hasText(statement, asked.x)), 'its parameters')
    texts.add(statements[2]?.text ?? '')
  }
  t.equal(texts.size, 4, 'the preferences change the text')
})

t.test('statements are compiled once, and again for other types', async t => {
  const { compile, alone, isCompiled, columnTypes, functionTypes } = useRequests()
  const expectCompiled = (asked: Asked, expected: boolean, name: string): void => {
    compile(asked)
    t.equal(isCompiled(), expected, name)
    compile({ ...asked, x: 'other', identity: bob })
    t.equal(isCompiled(), false, `${name}: for another session`)
    t.same(compile(asked), alone(asked), name)
  }
  expectCompiled({}, true, 'the first request')
  expectCompiled({ preferences: minimal }, true, 'without rows')
  expectCompiled({ idempotencyKey: key }, true, 'with a key')
  expectCompiled({ preferences: { ...preferences, isolation: 'serializable' } }, false, 'isolation')
  expectCompiled({}, false, 'as the first request')
  columnTypes.remember(columns(25))
  expectCompiled({}, true, 'columns become known')
  columnTypes.remember(columns(3802))
  expectCompiled({}, true, 'columns change')
  const before = compile({})[0]?.text
  functionTypes.remember(functions('text'))
  expectCompiled({}, true, 'a function changes')
  t.not(compile({})[0]?.text, before)
})
