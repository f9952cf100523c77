/**
 * `GET /openapi.json` returns a valid document of the API. Its example works. Its schemas accept
 * the batches that the planner accepts and the responses that the service sends. It contains no
 * keywords of TypeBox.
 */
import { Validator } from '@seriousme/openapi-schema-validator'
import { Kind, type TSchema } from '@sinclair/typebox'
import fc from 'fast-check'
import { pino } from 'pino'
import t from 'tap'
import { BatchAnswer, exampleAnswer } from '../../schemas/batch.ts'
import { ErrorEnvelope } from '../../schemas/error.ts'
import { modifiers } from '../../schemas/modifier.ts'
import { operations } from '../../schemas/operation.ts'
import { operators } from '../../schemas/operator.ts'
import { describeValue, preferenceItems } from '../../schemas/prefer.ts'
import { readConfig } from '../../src/config/config.ts'
import { catalogue } from '../../src/errors/catalogue.ts'
import { describeApi, type ApiDocument } from '../../src/openapi/document.ts'
import { collectComponents } from '../../src/openapi/json-schema.ts'
import { buildApp } from '../../src/server/app.ts'
import { asCustomer, useShopService } from '../support/database/shop.ts'
import { languagePages, readBlocks, readPage } from '../support/docs/pages.ts'
import { findFailure } from '../support/issues.ts'
import { arbitraryTrial } from '../support/model/arbitrary-batch.ts'
import { answerPointer, batchPointer, validatorsOf } from '../support/openapi.ts'
import { ask, SECRET, useService } from '../support/service.ts'
import { propertyRuns } from '../support/runs.ts'
import { findTracked } from '../support/tracked-files.ts'

const config =
  readConfig({ DATABASE_URL: 'postgres://app@127.0.0.1:1/shop', JWT_SECRET: SECRET }).config
const document = await describeApi(config, '/')

type Examples = Readonly<Record<string, { readonly value: unknown }>>

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required: boolean
  readonly description: string
}

interface RequestContent {
  readonly schema: Readonly<Record<string, unknown>>
  readonly examples: Examples
}

interface ResponseObject {
  readonly description: string
  readonly headers: object
  readonly content: Readonly<Record<string, { readonly examples?: Examples }>>
}

interface Operation {
  readonly operationId: string
  readonly security: readonly object[]
  readonly parameters: readonly Parameter[]
  readonly requestBody: { readonly content: Readonly<Record<string, RequestContent>> }
  readonly responses: Readonly<Record<string, ResponseObject>>
}
const operationOf = (document: ApiDocument, path = '/', method = 'post') =>
  document.paths[path]?.[method] as Operation

t.test('both servers serve the document without a token', async t => {
  const { url, adminUrl } = await useService(t, {
    env: { MAX_OPS: '7', MAX_ROWS: '21', MAX_BODY_BYTES: '4242', ANON_ROLE: 'oneflight_anon' }
  })
  const answer = await ask(`${url}/openapi.json`)
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8')
  t.match(answer.headers.get('x-request-id'), /./)
  const { paths, components, servers, openapi } = answer.body as ApiDocument
  t.match(openapi, /^3\.1\.\d$/)
  t.same(servers, [{ url: '/' }])
  const { security, ...batch } = operationOf(answer.body as ApiDocument)
  t.match(components.schemas['Batch'], { type: 'array', minItems: 1, maxItems: 7 })
  t.match(components.schemas['Insert'], { properties: { values: { maxItems: 21 } } })
  t.match(batch, { description: /\b7 operations, 21 rows per operation, 4242 bytes/ })
  t.same(security, [{ bearer: [] }, {}], 'a token is optional')
  t.same(Object.keys(paths), ['/', '/health'])

  const admin = await ask(`${adminUrl}/openapi.json`)
  t.same(
    admin.body,
    { ...answer.body, servers: [{ url }] },
    'the same document with the URL of the main server'
  )

  const etag = answer.headers.get('etag') as string
  t.equal(answer.headers.get('cache-control'), 'no-cache')
  const again = await ask(`${url}/openapi.json`, { headers: { 'if-none-match': etag } })
  t.same([again.status, again.text, again.headers.get('etag')], [304, '', etag])
  const head = await ask(`${url}/openapi.json`, { method: 'HEAD' })
  t.same([head.status, head.text, head.headers.get('etag')], [200, '', etag])
})

t.test('the document is valid and uses only keywords of OpenAPI and JSON Schema', async t => {
  const result = await new Validator().validate(
    JSON.parse(JSON.stringify(document)) as Record<string, unknown>
  )
  t.same(result, { valid: true })

  const keywords = new Set([
    '$ref', 'title', 'description', 'type', 'const', 'enum', 'pattern', 'minimum', 'maximum',
    'minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties', 'required',
    'properties', 'additionalProperties', 'propertyNames', 'items', 'anyOf', 'oneOf',
    'discriminator', 'not', 'if', 'then', 'else', 'dependentRequired', 'dependentSchemas'
  ])
  const names = new Set(['properties', 'dependentSchemas'])
  const data = new Set(['const', 'enum', 'required', 'discriminator', 'dependentRequired'])
  const unknown = new Set<string>()
  const visit = (schema: unknown): void => {
    if (Array.isArray(schema)) return schema.forEach(visit)
    if (typeof schema !== 'object' || schema === null) return
    for (const [keyword, value] of Object.entries(schema)) {
      if (!keywords.has(keyword)) unknown.add(keyword)
      if (names.has(keyword)) Object.values(value as object).forEach(visit)
      else if (!data.has(keyword)) visit(value)
    }
  }
  visit(Object.values(document.components.schemas))
  t.same([...unknown], [])
  const text = JSON.stringify(document.components)
  for (const name of Object.keys(document.components.schemas)) {
    t.ok(
      text.split(`"#/components/schemas/${name}"`).length > 1 ||
        /^(?:Batch|BatchAnswer|ErrorEnvelope|Healthy|Unhealthy)$/.test(name),
      `${name} is referenced`
    )
  }
  const ids = Object.values(document.paths).flatMap(path =>
    Object.values(path).map(operation => (operation as Operation).operationId)
  )
  t.same(ids, ['runBatch', 'checkHealth'])
})

t.test('every object of the document has a name, which generators give to its type', t => {
  const unnamed: string[] = []
  const visit = (value: unknown, place: string): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [key, part] of Object.entries(value)) {
      const inner = `${place}/${key}`
      if (/^(?:if|then|else|not|dependentSchemas|examples)$/.test(key)) continue
      if (typeof part === 'object' && part !== null && 'properties' in part) unnamed.push(inner)
      visit(part, inner)
    }
  }
  const tables = describeApi({ ...config, API_TABLES: 'on' }, '/')
  for (const [name, schema] of Object.entries(tables.components.schemas)) {
    t.equal(schema['title'], name)
    visit(schema, name)
  }
  visit(tables.paths, '')
  t.same(unnamed, [])
  const { content } = operationOf(tables).requestBody
  t.same(content['application/json']?.schema, { $ref: '#/components/schemas/Batch' })
  t.end()
})

t.test('the response of a batch is also a stream with MAX_STREAM_ROWS', async t => {
  for (const [rows, types] of [
    [0, ['application/json']],
    [10, ['application/json', 'application/x-ndjson']]
  ] as const) {
    const streaming = describeApi({ ...config, MAX_STREAM_ROWS: rows }, '/')
    const { responses } = operationOf(streaming) as unknown as {
      readonly responses: Readonly<Record<string, { readonly content: object }>>
    }
    t.same(Object.keys(responses['200']?.content ?? {}), types)
    t.same(Object.keys(responses['406']?.content ?? {}), ['application/json'])
  }
})

t.test('the document describes every route, preference, operator and error code', async t => {
  const app = await buildApp({
    ...readConfig({ DATABASE_URL: 'postgres://app@127.0.0.1:1/shop', JWT_SECRET: SECRET }),
    logger: pino({ level: 'silent' })
  })
  await app.ready()
  const routes = [...app.printRoutes({ commonPrefix: false }).matchAll(/\/?(\S*) \(([^)]+)\)/g)]
    .map(([, path, list]) => {
      const methods = list?.split(', ').filter(method => method !== 'HEAD')
      return [`/${path}`, methods]
    })
  await app.close()
  const described = Object.entries(document.paths).map(([path, item]) => {
    const methods = Object.keys(item).map(method => method.toUpperCase())
    return [path, methods]
  })
  // Each named batch has its own path in the document: see openapi-named.test.ts.
  const others = [['/openapi.json', ['GET']], ['/batches/:name', ['POST']]]
  t.same(new Set(routes), new Set([...described, ...others]))

  const { parameters, responses } = operationOf(document)
  t.same(
    parameters.map(({ name, in: place, required }) => [name, place, required]),
    [
      'Prefer', 'Idempotency-Key', 'Oneflight-Position', 'X-Request-Id', 'traceparent', 'tracestate'
    ].map(name => [name, 'header', false])
  )
  for (const [name, { anyOf }] of preferenceItems) {
    const values = anyOf.map(({ const: value }) => describeValue(value))
    for (const text of [`\`${name}\``, ...values]) t.match(parameters[0]?.description, text)
  }
  t.same(Object.keys(document.components.schemas['FilterTests']?.['properties'] as object), [
    ...Object.keys(operators),
    'not'
  ])
  const wordsOf = (title: string): readonly unknown[] =>
    document.components.schemas[title]?.['anyOf'] as readonly unknown[]
  // Beside the modifiers there is the plain value. Each has a modifier that the other one lacks.
  for (const title of ['ConflictNewValue', 'NewValue']) {
    t.equal(wordsOf(title).length, Object.keys(modifiers).length)
  }
  for (const [code, { status }] of Object.entries(catalogue)) {
    const listed = responses[status]?.description.includes(`\`${code}\`: `) === true
    t.equal(
      listed,
      ![
        'not_found', 'method_not_allowed', 'origin_forbidden', 'client_closed_request',
        'batch_unknown', 'params_invalid', 'role_forbidden'
      ].includes(code),
      code
    )
  }
  t.match(responses[403]?.description, '`validation_failed`')
  for (const code of ['serialization_failure', 'unique_violation', 'lock_not_available']) {
    t.match(responses[409]?.description, `\`${code}\``)
  }
  const success = [
    'X-Request-Id', 'Preference-Applied', 'Idempotent-Replayed', 'Oneflight-Txid', 'Oneflight-Xid',
    'Oneflight-Position', 'Server-Timing', 'traceparent'
  ]
  const headersByStatus = {
    200: success,
    400: ['X-Request-Id'],
    401: ['X-Request-Id', 'WWW-Authenticate'],
    503: ['X-Request-Id', 'Retry-After']
  }
  for (const [status, headers] of Object.entries(headersByStatus)) {
    t.same(Object.keys(responses[status]?.headers ?? {}), headers, status)
  }
})

t.test('the security requirements follow the configuration', async t => {
  const rows = [
    [{ JWT_SECRET: SECRET }, [{ bearer: [] }], ['bearer']],
    [{ JWT_SECRET: SECRET, ANON_ROLE: 'anon' }, [{ bearer: [] }, {}], ['bearer']],
    [{ ANON_ROLE: 'anon' }, [{}], []]
  ] as const
  for (const [env, security, schemes] of rows) {
    const document = await describeApi(
      readConfig({ DATABASE_URL: 'postgres://app@127.0.0.1:1/shop', ...env }).config,
      '/'
    )
    t.same(operationOf(document).security, security)
    t.same(operationOf(document, '/health', 'get').security, [], '/health needs no token')
    t.same(
      Object.keys((document.components as { securitySchemes?: object }).securitySchemes ?? {}),
      schemes
    )
  }
})

t.test('schemas with the same title are equal', async t => {
  const seen = new Map<string, number>()
  const visited = new Set<TSchema>()
  const visit = (schema: TSchema): void => {
    if (visited.has(schema)) return
    visited.add(schema)
    const { title } = schema
    if (title !== undefined && schema[Kind] !== 'This') {
      const { describe, schemas } = collectComponents()
      describe(schema)
      // The document adds `additionalProperties: false` to operations.
      if (!Object.values<TSchema>(operations).includes(schema)) {
        t.same({ title, ...schemas[title] }, document.components.schemas[title], title)
      }
      seen.set(title, (seen.get(title) ?? 0) + 1)
    }
    if (schema['described'] !== undefined) visit(schema['described'] as TSchema)
    const parts = [
      schema['items'],
      schema['additionalProperties'],
      ...(schema['anyOf'] as readonly unknown[] | undefined) ?? [],
      ...Object.values(schema['properties'] ?? {}),
      ...Object.values(schema['patternProperties'] ?? {})
    ]
    for (const part of parts) {
      if (typeof part === 'object') visit(part as TSchema)
    }
  }
  for (const schema of [...Object.values(operations), BatchAnswer, ErrorEnvelope]) visit(schema)
  t.ok((seen.get('Filter') ?? 0) > 1 && (seen.get('ComparandOperand') ?? 0) > 1)
})

t.test('the example returns the documented response, and /health too', async t => {
  const service = await useShopService(t)
  const examples = operationOf(document).requestBody.content['application/json']?.examples ?? {}
  const validate = validatorsOf(document)
  const isBatch = validate(batchPointer)
  t.same(Object.keys(examples), ['order'])
  for (const [name, { value }] of Object.entries(examples)) {
    t.ok(isBatch(value), name)
    const { status, body } = await service.post(value, { headers: asCustomer() })
    t.equal(status, 200, name)
    t.ok(validate(answerPointer(document, '/', 'post', 200))(body), name)
    t.same(withoutTimes(body), withoutTimes(exampleAnswer), name)
  }
  const health = await ask(`${service.url}/health`)
  t.ok(validate(answerPointer(document, '/health', 'get', 200))(health.body))
  t.notOk(validate(answerPointer(document, '/health', 'get', 503))(health.body))
})

function withoutTimes (body: unknown): unknown {
  return JSON.parse(JSON.stringify(body).replaceAll(/"created_at":"[^"]*"/g, '"created_at":""'))
}

t.test('the schemas accept the examples of responses', async t => {
  const validate = validatorsOf(document)
  const { responses } = operationOf(document)
  t.notOk(
    validate(answerPointer(document, '/', 'post', 400))({ error: { code: 'x' }, data: null }),
    'an incomplete error is rejected'
  )
  const examples = Object.entries(responses).flatMap(([status, { content }]) =>
    Object.values(content['application/json']?.examples ?? {}).map(({ value }) =>
      [Number(status), value] as const
    )
  )
  t.ok(examples.length > 30)
  for (const [status, value] of examples) {
    t.ok(validate(answerPointer(document, '/', 'post', status))(value), JSON.stringify(value))
  }
})

t.test('the schemas and the planner agree on which batches are valid', async t => {
  const isBatch = validatorsOf(document)(batchPointer)
  const isAccepted = (batch: unknown): boolean =>
    findFailure(batch, { DB_SCHEMAS: 'public,shop' }) === undefined
  const first = { id: 'a', op: 'select', table: 't' }

  const pages = [...languagePages, 'docs/guides/row-level-security.md']
    .flatMap(page => readBlocks(readPage(page)))
    .filter(({ language, text }) => language === 'json' && text.startsWith('['))
    .map(({ text }) => text)
  const files = findTracked('examples/*.json').map(readPage)
  const written = [...pages, ...files].map(text => JSON.parse(text) as readonly object[])
  t.ok(pages.length > 25 && files.length > 5)
  const accepted = written.filter(isAccepted)
  t.ok(accepted.length > 30)
  for (const batch of accepted) {
    t.ok(isBatch(batch), `${JSON.stringify(batch)}: ${JSON.stringify(isBatch.errors)}`)
  }
  // grammar.test.ts compares random invalid operations.
  const rejected = [
    [{ id: 'o', op: 'delete', table: 't', where: {} }],
    [first, { id: 'o', op: 'select', table: 't', where: { a: { eq: '$a.*.id' } } }]
  ]
  for (const batch of rejected) {
    t.notOk(isAccepted(batch), JSON.stringify(batch))
    t.notOk(isBatch(batch), JSON.stringify(batch))
  }
  fc.assert(
    fc.property(arbitraryTrial, ({ operations }) => {
      // JavaScript parses a number beyond the range of a double as Infinity.
      const batch = JSON.parse(
        JSON.stringify(operations),
        (_key, value: unknown) => Math.abs(value as number) === Infinity ? 0 : value
      ) as readonly object[]
      return !isAccepted(batch) || isBatch(batch)
    }),
    { numRuns: propertyRuns(150, 500) }
  )
  t.notOk(isBatch([]))
  t.notOk(
    isBatch(Array.from({ length: config.MAX_OPS + 1 }, (_, i) => ({ ...first, id: `o${i}` })))
  )
})
