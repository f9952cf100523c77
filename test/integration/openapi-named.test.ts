/**
 * Tests that the OpenAPI document describes each named batch: its path, the schema of its
 * parameters, who may run it, and its responses.
 */
import { Validator } from '@seriousme/openapi-schema-validator'
import { pino } from 'pino'
import t from 'tap'
import { readConfig } from '../../src/config/config.ts'
import type { NamedBatches } from '../../src/named/named-batch.ts'
import { describeApi, type ApiDocument } from '../../src/openapi/document.ts'
import { batchLimits } from '../../src/plan/check/read-batch.ts'
import { buildApp } from '../../src/server/app.ts'
import { answerPointer, validatorsOf } from '../support/openapi.ts'
import { ask, readBatches, SECRET, useService, type Answer } from '../support/service.ts'
import { postBatch } from '../support/shorthand.ts'

const environment = { DATABASE_URL: 'postgres://app@127.0.0.1:1/shop', JWT_SECRET: SECRET }
const { config } = readConfig(environment)

const operations = [{ id: 's', op: 'select', table: 't', where: { a: { eq: '$params.a' } } }]
const order = {
  description: 'Orders *things*.',
  roles: ['shop_customer', 'clerk'],
  params: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    additionalProperties: false,
    required: ['a'],
    // `word` is data.
    properties: {
      a: { $ref: '#/$defs/id' },
      $ref: { type: 'array', items: { $ref: '#/$defs/id' } },
      word: { const: { $ref: '#/$defs/id' }, default: { $ref: '#/$defs/id' } }
    },
    $defs: { id: { type: 'integer', maximum: 9007199254740991 } }
  },
  operations
}
const list = { operations: [{ id: 's', op: 'select', table: 't' }] }

const read = (files: Readonly<Record<string, unknown>>): NamedBatches =>
  readBatches(files, batchLimits(config))

interface Described {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly security: readonly object[]
  readonly parameters: ReadonlyArray<{ readonly name: string }>
  readonly requestBody: object
  readonly responses: Readonly<Record<string, object>>
}

const describe = async (
  files: Readonly<Record<string, unknown>>,
  more = {}
): Promise<{ readonly document: ApiDocument, readonly post: (path: string) => Described }> => {
  const { config } = readConfig({ ...environment, ...more })
  const text = JSON.stringify(await describeApi(config, '/', [...read(files).values()]))
  const document = JSON.parse(text) as ApiDocument
  return { document, post: path => document.paths[path]?.['post'] as Described }
}

const pointer = (name: string): string => `/components/schemas/${name}_params`

t.test('each named batch has a path with the schema of its parameters', async t => {
  const { document, post } = await describe({ order, list })
  t.same(Object.keys(document.paths), ['/', '/batches/order', '/batches/list', '/health'])
  const described = post('/batches/order')
  t.equal(described.operationId, 'order')
  t.equal(described.summary, 'Run the batch "order"')
  t.equal(described.description, 'Orders *things*.\n\nRoles: `shop_customer`, `clerk`.')
  t.equal(post('/batches/list').description, '')
  t.same(described.parameters, post('/').parameters)
  t.same(described.requestBody, {
    required: true,
    content: { 'application/json': { schema: { $ref: `#${pointer('order')}` } } }
  })
  const { schemas } = document.components
  t.same(schemas['list_params'], { type: 'object', additionalProperties: false })
  const id = { $ref: '#/components/schemas/order_params_id' }
  t.same(schemas['order_params']?.['properties'], {
    ...order.params.properties, a: id, $ref: { type: 'array', items: id }
  })
  t.notOk('$defs' in (schemas['order_params'] ?? {}))
  t.same(schemas['order_params_id'], order.params.$defs.id)
})

t.test('parts that references name become components', async t => {
  const params = {
    type: 'object',
    properties: {
      $defs: { type: 'object', properties: { a: { $ref: '#/definitions/x-y' } } },
      b: { $ref: '#/properties/$defs/properties/a' },
      c: { type: 'array', prefixItems: [{ $ref: '#/definitions/x~1y' }, { type: 'string' }] },
      d: { $ref: '#/properties/c/prefixItems/1' },
      e: { $ref: '#/definitions/a%25b/$defs/inner' },
      f: { $ref: '#/definitions/never' },
      g: { anyOf: [{ type: 'null' }, { $ref: '#/definitions/node' }] },
      tree: { $ref: '#' }
    },
    definitions: {
      'x-y': { type: 'integer', maximum: 9 },
      'x/y': true,
      'a%b': { $defs: { inner: { type: 'boolean' } }, $ref: '#/definitions/a%25b/$defs/inner' },
      never: false,
      node: { type: 'object', properties: { next: { $ref: '#/definitions/node' } } }
    }
  }
  const { document } = await describe({ deep: { params, operations: list.operations } })
  const { schemas } = document.components
  const own = Object.entries(schemas).filter(([name]) => name.startsWith('deep'))
  t.notMatch(JSON.stringify(own), /"definitions"|"\$defs":\{(?!"type")|\/\$defs\//)
  t.same(own.map(([name]) => name).sort(), [
    'deep_params', 'deep_params_1', 'deep_params_a', 'deep_params_inner', 'deep_params_never',
    'deep_params_node', 'deep_params_x_y', 'deep_params_x_y_2'
  ])
  t.same([schemas['deep_params_x_y_2'], schemas['deep_params_never']], [{}, { not: {} }])
  t.match(schemas['deep_params']?.['properties'], {
    $defs: { properties: { a: { $ref: '#/components/schemas/deep_params_a' } } },
    c: { prefixItems: [{}, { $ref: '#/components/schemas/deep_params_1' }] },
    tree: { $ref: '#/components/schemas/deep_params' }
  }, 'a component is referred to in its place, too')
  t.same(await new Validator().validate(structuredClone(document) as never), { valid: true })
  const isValid = validatorsOf(document)(pointer('deep'))
  const good = { $defs: { a: 9 }, b: 9, c: [{}, 'x'], d: 'x', e: true, g: { next: { next: {} } } }
  t.ok(isValid(good), JSON.stringify(isValid.errors))
  const bad = [
    { $defs: { a: 10 } }, { b: 'x' }, { c: [1, 2] }, { d: 1 }, { e: 1 }, { f: 1 },
    { g: { next: 1 } }
  ]
  for (const value of bad) t.notOk(isValid(value), JSON.stringify(value))
})

t.test('ids of operations and names of components are unique for generators', async t => {
  const names = ['take-job', 'order', 'a-b', 'a_b', 'ab', 'run-batch', 'check_health', '2fa', 'a-']
  const params = { type: 'object', properties: { x: { $ref: '#/$defs/b_params' } } }
  const withParts = { ...list, params: { ...params, $defs: { b_params: { type: 'string' } } } }
  const files = Object.fromEntries(names.map(name => [name, list]))
  const idsOf = async (more: object = {}): Promise<Readonly<Record<string, string>>> => {
    const { document } = await describe({ ...files, a: withParts, 'a_params-b': list, ...more })
    t.same(await new Validator().validate(structuredClone(document) as never), { valid: true })
    const components = Object.keys(document.components.schemas)
    const ids = Object.entries(document.paths).flatMap(([path, operations]) =>
      Object.values(operations as Readonly<Record<string, Described>>)
        .map(({ operationId }) => [path.replace('/batches/', ''), operationId]))
    for (const all of [ids.map(([, id]) => id as string), components]) {
      const plain = all.map(id => id.replace(/[^a-z0-9]/gi, '').toLowerCase())
      t.equal(new Set(plain).size, plain.length, all.join())
      for (const id of all) t.match(id, /^[A-Za-z0-9._]+$/)
    }
    return Object.fromEntries(ids)
  }
  const ids = await idsOf()
  t.match(ids, {
    '/': 'runBatch',
    '/health': 'checkHealth',
    'take-job': 'takeJob',
    order: 'order',
    '2fa': 'batch2fa',
    'a-b': /^aB_[0-9a-f]{8}$/,
    a_b: /^aB_[0-9a-f]{8}$/,
    ab: /^ab_[0-9a-f]{8}$/,
    'run-batch': /^runBatch_[0-9a-f]{8}$/
  })
  t.match(await idsOf({ other: list, 'take-jobs': list }), ids, 'others do not change an id')
})

t.test('a token is optional only where the anonymous role may run the batch', async t => {
  const files = { order, list, open: { ...list, roles: ['guest'] } }
  const securityOf = async (more: object): Promise<readonly unknown[]> => {
    const { post } = await describe(files, more)
    return ['order', 'list', 'open'].map(name => post(`/batches/${name}`).security)
  }
  const [required, optional] = [[{ bearer: [] }], [{ bearer: [] }, {}]]
  t.same(await securityOf({}), [required, required, required])
  t.same(await securityOf({ ANON_ROLE: 'guest' }), [required, optional, optional])
})

t.test('named batches have their own errors', async t => {
  const { document, post } = await describe({ order, list })
  const { responses } = document.components as unknown as {
    readonly responses: Readonly<Record<string, { readonly description: string }>>
  }
  const adhoc = post('/').responses
  t.same(Object.keys(post('/batches/order').responses), Object.keys(adhoc))
  const { 200: _, ...failures } = post('/batches/order').responses
  t.match(post('/batches/list').responses, failures)
  const own = [
    [404, 'batch_unknown'],
    [422, 'params_invalid'],
    [403, 'role_forbidden'],
    [412, 'expectation_failed'],
    [413, 'too_much_work']
  ] as const
  for (const [status, code] of own) {
    t.match(responses[`named_${status}`]?.description, `\`${code}\`: `)
  }
  const text = JSON.stringify(responses)
  for (const code of ['adhoc_forbidden', 'validation_failed', 'too_many_ops', 'body_empty']) {
    t.notMatch(text, code)
  }
  t.equal('responses' in (await describe({})).document.components, false)
})

t.test('the results have the members that the plan names', async t => {
  const rows = { op: 'select', table: 't' }
  const change = { op: 'insert', table: 'u', values: [{ t_id: 1 }] }
  const on = { t_id: 'id' }
  const any = { $ref: '#/components/schemas/AnswerRow' }
  const list = (items: object): object => ({ type: 'array', items })
  const row = (members: Readonly<Record<string, object>>): object =>
    ({ type: 'object', properties: members, required: Object.keys(members) })
  const orNull = (schema: object): object => ({ anyOf: [schema, { type: 'null' }] })
  const [id, note] = [row({ id: {} }), row({ note: {} })]
  const count = { type: 'integer', minimum: 0 }
  /** Operations, and the schemas of their results. */
  const described: Readonly<Record<string, readonly [operation: object, schema: object]>> = {
    whole: [rows, list(any)],
    star: [{ ...rows, columns: ['*'] }, list(any)],
    none: [{ ...rows, where: { id: { eq: 5 } } }, list(any)],
    more: [{ ...rows, columns: ['*', { column: 'doc->a', as: 'b' }] },
      list({ ...row({ b: {} }), additionalProperties: {} })],
    named: [{ ...rows, columns: ['id', 'doc->a', { column: 'id', cast: 'text', as: 'text' }] },
      list(row({ id: {}, a: {}, text: {} }))],
    total: [{ ...rows, columns: [{ fn: 'count' }, { fn: 'max', column: 'id', as: 'last' }] },
      list(row({ count: {}, last: {} }))],
    one: [{ ...rows, columns: ['id'], expect: 1 }, { ...list(id), minItems: 1, maxItems: 1 }],
    some: [{ ...rows, columns: ['id'], expect: { min: 1 } }, list(id)],
    n: [{ ...rows, answer: 'count' }, count],
    skipped: [{ ...rows, columns: ['id'], when: { none: 1 } }, orNull(list(id))],
    run: [{ ...rows, columns: ['id'], when: { one: 1 } }, orNull(list(id))],
    noCount: [{ ...rows, answer: 'count', when: { none: 1 } }, orNull(count)],
    nested: [
      {
        ...rows,
        columns: ['id'],
        with: {
          parts: { table: 'u', on, columns: ['t_id'] },
          all: { table: 'u', on },
          last: {
            table: 'u',
            on,
            one: true,
            columns: ['note'],
            with: { up: { table: 't', on: { id: 't_id' }, columns: ['id'] } }
          }
        }
      },
      list(row({
        id: {},
        parts: list(row({ t_id: {} })),
        all: list(any),
        last: orNull(row({ note: {}, up: list(id) }))
      }))
    ],
    wholeNested: [{ ...rows, with: { parts: { table: 'u', on, columns: ['note'] } } },
      list({ ...row({ parts: list(note) }), additionalProperties: {} })],
    new: [{ ...change, returning: ['t_id'] }, list(row({ t_id: {} }))],
    silent: [{ ...change, returning: [] }, list({ type: 'object', properties: {} })],
    upsert: [{
      op: 'insert',
      table: 't',
      values: [{ id: 1 }],
      on_conflict: { columns: ['id'], do: 'update', set: { id: 1 } },
      returning: ['id', { fn: 'inserted', as: 'new' }]
    }, list(row({ id: {}, new: {} }))],
    gone: [{ op: 'delete', table: 'u', where: { t_id: { eq: 1 } }, returning: ['note'] },
      list(note)],
    called: [{ op: 'call', function: 'f' }, list(any)]
  }
  const operations = Object.entries(described).map(([id, [operation]]) => ({ id, ...operation }))
  const { url, run } = await useService(t, {
    schema: `create table t (id int primary key, doc jsonb default '{"a": 2}');
      insert into t values (1); create table u (t_id int, note text); insert into u values (1, 'x');
      create function f () returns table (z int) language sql as 'select 1';`,
    batches: { all: { operations } }
  })
  const document = (await ask(`${url}/openapi.json`)).body as ApiDocument
  const { status, body, text } = await run('all', {})
  t.equal(status, 200, text)
  const isValid = validatorsOf(document)(answerPointer(document, '/batches/all', 'post', 200))
  t.ok(isValid(body), `${JSON.stringify(isValid.errors)} ${text}`)
  const { responses } = document.paths['/batches/all']?.['post'] as unknown as {
    readonly responses: {
      readonly 200: {
        readonly content: Readonly<Record<string, {
          readonly schema: { readonly properties: { readonly data: Results } }
        }>>
      }
    }
  }
  const { properties, required } =
    responses[200].content['application/json']?.schema.properties.data as Results
  t.same(required, Object.keys(described))
  t.same(properties, Object.fromEntries(
    Object.entries(described).map(([id, [, schema]]) => [id, schema])
  ))
  t.same(await new Validator().validate(structuredClone(document) as never), { valid: true })
  t.notOk(isValid({ ...body, data: { ...body.data, named: [{ id: 1, a: 2 }] } }))
})

interface Results {
  readonly properties: object
  readonly required: readonly string[]
}

t.test('the responses of both servers match the document', async t => {
  const { url, adminUrl, run } = await useService(t, {
    schema: 'create table t (a int); insert into t values (1)',
    batches: { order: { ...order, roles: ['oneflight_user'] }, list }
  })
  const document = (await ask(`${url}/openapi.json`)).body as ApiDocument
  const validate = validatorsOf(document)
  const forward = (name: string, values: object): Promise<Answer> =>
    postBatch(`${adminUrl}/reference/try/batches/${name}`, values)
  const rows = [['order', { a: 1 }, 200], ['order', { a: 'x' }, 422], ['list', {}, 200]] as const
  for (const [name, values, status] of rows) {
    const answer = await run(name, values)
    t.equal(answer.status, status, answer.text)
    const place = status === 200
      ? answerPointer(document, `/batches/${name}`, 'post', status)
      : `/components/responses/named_${status}/content/application~1json/schema`
    t.ok(validate(place)(answer.body), answer.text)
    const forwarded = await forward(name, values)
    t.equal(forwarded.status, status, 'from the reference page')
  }
  const unknown = await forward('no%2Fne', {})
  t.same([unknown.status, unknown.body.error.code], [404, 'batch_unknown'])
})

t.test('after a reload the document shows the current batches', async t => {
  let batches = read({ order })
  const app = await buildApp({
    ...readConfig(environment),
    batches: { current: () => batches },
    logger: pino({ level: 'silent' })
  })
  t.teardown(() => app.close())
  const paths = async (): Promise<readonly [paths: readonly string[], etag: unknown]> => {
    const { headers, body } = await app.inject('/openapi.json')
    return [Object.keys((JSON.parse(body) as ApiDocument).paths), headers['etag']]
  }
  const [before, etag] = await paths()
  t.same(before, ['/', '/batches/order', '/health'])
  t.same(await paths(), [before, etag], 'the same document')
  batches = read({ list })
  const [after, newEtag] = await paths()
  t.same(after, ['/', '/batches/list', '/health'])
  t.not(newEtag, etag)
})
