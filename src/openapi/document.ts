/**
 * Builds the OpenAPI 3.1 document. The routes of the service have no schemas, so Fastify neither
 * validates requests nor serializes responses: rows are sent as PostgreSQL rendered them.
 */
import { createRequire, findPackageJSON } from 'node:module'
import type { TSchema } from '@sinclair/typebox'
import { BatchAnswer, batchSchema, exampleAnswer, exampleBatch } from '../../schemas/batch.ts'
import type { Config } from '../../schemas/config.ts'
import { ErrorEnvelope } from '../../schemas/error.ts'
import {
  AnswerHeaders,
  Healthy,
  mediaTypes,
  RequestHeaders,
  TableList,
  Unhealthy
} from '../../schemas/http.ts'
import type { NamedBatch } from '../named/named-batch.ts'
import { errorAnswers, type BatchKind } from './error-responses.ts'
import {
  collectComponents,
  type Components,
  type JsonSchema,
  describeOperations
} from './json-schema.ts'
import { describeNamedBatches, type Operation } from './named-batches.ts'

export interface ApiDocument {
  readonly openapi: string
  readonly info: object
  readonly components: {
    readonly securitySchemes: object,
    readonly schemas: Readonly<Record<string, JsonSchema>>,
    readonly responses?: object
  }
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly servers: ReadonlyArray<{ readonly url: string }>
}

export type DescribedConfig = Config & {
  /** Tokens are accepted although there are no JWT_ALGORITHMS. */
  readonly hasHostKeys?: boolean
}

/** `server` is the URL of the main server. It may be relative to the URL of the document. */
export function describeApi (
  config: DescribedConfig,
  server: string,
  batches: readonly NamedBatch[] = []
): ApiDocument {
  const components = collectComponents()
  const adhoc = describeBatch(config, components)
  const template =
    { ...commonParts(config), responses: batchResponses('named', config, components) }
  const others = {
    ...config.API_TABLES === 'on' && { '/tables': { get: describeTables(config, components) } },
    '/health': { get: describeHealth(components) }
  }
  const schemas = addTitles({
    Batch: batchComponent(config),
    ...describeOperations(components, config)
  })
  const ids = [adhoc, ...Object.values(others).flatMap(path => Object.values(path))]
    .map(({ operationId }) => operationId as string)
  const named = describeNamedBatches(
    batches,
    { template, ids, components: Object.keys(schemas) },
    config
  )
  return {
    openapi: '3.1.1',
    info: {
      title: 'Oneflight',
      version,
      description: introduction,
      license: { name: license, identifier: license }
    },
    components: {
      securitySchemes: tokensOf(config).length === 0 ? {} : { bearer },
      schemas: { ...schemas, ...named.schemas },
      ...batches.length === 0 ? {} : { responses: named.responses }
    },
    paths: { '/': { post: adhoc }, ...named.paths, ...others },
    servers: [{ url: server }]
  }
}

/** Adds the names as titles, after which generators that follow references name their types. */
function addTitles (schemas: Components['schemas']): Components['schemas'] {
  return Object.fromEntries(
    Object.entries(schemas).map(([title, schema]) => [title, { title, ...schema }])
  )
}

const { version, license } = createRequire(import.meta.url)(
  findPackageJSON(import.meta.url) as string
) as { readonly version: string, readonly license: string }

const bearer = {
  type: 'http',
  scheme: 'bearer',
  bearerFormat: 'JWT',
  description: 'A token with the database role'
}

const introduction =
  'Runs a JSON array of database operations on PostgreSQL as one transaction, with the database ' +
  `role of the caller's token.

A batch is an array of operations that run in order. A string such as \`"$order.0.id"\` refers ` +
  'to a row of an earlier operation. Either all operations are committed or none.'

/** The security requirement of a token; empty when the service accepts no tokens. */
function tokensOf (
  { JWT_ALGORITHMS, hasHostKeys = false }: DescribedConfig
): Array<Record<string, string[]>> {
  return JWT_ALGORITHMS.length === 0 && !hasHostKeys ? [] : [{ bearer: [] }]
}

function describeBatch (config: DescribedConfig, components: Components): Operation {
  return {
    operationId: 'runBatch',
    summary: 'Run a batch',
    description:
      'Runs the operations of a batch in order, as one transaction, and returns the rows of ' +
      `each. Limits: ${config.MAX_OPS} operations, ${config.MAX_ROWS} rows per operation, ` +
      `${config.MAX_BODY_BYTES} bytes.

The example uses the tables of the sample shop (\`deploy/shop.sql\`). In another database, name ` +
      'its tables instead.',
    requestBody: batchBody,
    ...commonParts(config),
    responses: batchResponses('adhoc', config, components)
  }
}

/** Without a token, the anonymous role is used. */
function securityOf (config: DescribedConfig): object[] {
  return [...tokensOf(config), ...(config.ANON_ROLE === undefined ? [] : [{}])]
}

function commonParts (config: DescribedConfig): object {
  return {
    parameters: Object.entries(RequestHeaders.properties).map(([name, header]) => {
      const { schema, description } = writeHeader(header)
      return { schema, in: 'header', name, required: false, description }
    }),
    security: securityOf(config)
  }
}

function batchComponent ({ MAX_OPS }: DescribedConfig): JsonSchema {
  const { minItems, maxItems, description } = batchSchema(MAX_OPS)
  const items = { $ref: '#/components/schemas/Operation' }
  return { type: 'array', description, minItems, maxItems, items }
}

const batchBody = {
  required: true,
  content: {
    'application/json': {
      schema: { $ref: '#/components/schemas/Batch' },
      examples: {
        order: {
          summary: 'Sample shop: create a customer and an order with its lines, mark it as paid',
          value: exampleBatch
        }
      }
    }
  }
}

function batchResponses (
  kind: BatchKind,
  { MAX_STREAM_ROWS }: DescribedConfig,
  components: Components
): object {
  const envelope = components.describe(ErrorEnvelope)
  const failed = errorAnswers(kind).map(({ status, ...answer }) =>
    [status, answerOf({ ...answer, schema: envelope })])
  return {
    200: answerOf({
      description: BatchAnswer.description as string,
      streams: MAX_STREAM_ROWS > 0,
      schema: components.describe(BatchAnswer),
      ...kind === 'adhoc' && {
        examples: { order: { summary: 'Rows in the sample shop', value: exampleAnswer } }
      },
      headers: [
        'x-request-id',
        'preference-applied',
        'idempotent-replayed',
        'oneflight-txid',
        'oneflight-xid',
        'oneflight-position',
        'server-timing',
        'traceparent'
      ]
    }),
    ...Object.fromEntries(failed),
    default: answerOf({
      description:
        'A status that a database function sets by raising an error whose SQLSTATE is `PT` and ' +
        'three digits.',
      schema: envelope
    })
  }
}

function describeTables (config: DescribedConfig, components: Components): Operation {
  return {
    operationId: 'listTables',
    summary: 'List tables',
    description: 'Lists the tables and columns that the role of the token may use.',
    security: securityOf(config),
    responses: {
      200: answerOf({
        description: TableList.description as string,
        schema: components.describe(TableList)
      }),
      default: answerOf({
        description: 'The token is refused, or the database is unavailable.',
        schema: components.describe(ErrorEnvelope)
      })
    }
  }
}

function describeHealth (components: Components): Operation {
  return {
    operationId: 'checkHealth',
    summary: 'Health check',
    description: 'Checks that the database is available. For load balancers. Requires no token.',
    security: [],
    responses: {
      200: answerOf({
        description: Healthy.description as string,
        schema: components.describe(Healthy)
      }),
      503: answerOf({
        description: Unhealthy.description as string,
        schema: components.describe(Unhealthy),
        headers: ['x-request-id', 'retry-after']
      })
    }
  }
}

interface Answer {
  readonly description: string
  readonly schema: JsonSchema
  readonly examples?: Readonly<Record<string, unknown>>
  /** Names of headers, in lower case. */
  readonly headers?: readonly string[]
  readonly streams?: boolean
}

const stream = {
  schema: {
    type: 'string',
    description: 'A line of JSON for each row of the only select, and one for the outcome'
  }
}

function answerOf (
  { description, schema, examples = {}, headers = ['x-request-id'], streams = false }: Answer
) {
  const all = Object.entries<TSchema>(AnswerHeaders.properties)
  return {
    description,
    headers: Object.fromEntries(
      all.filter(([name]) => headers.includes(name.toLowerCase()))
        .map(([name, header]) => [name, writeHeader(header)])
    ),
    content: {
      'application/json': { schema, ...(Object.keys(examples).length === 0 ? {} : { examples }) },
      ...streams && { [mediaTypes.ndjson]: stream }
    }
  }
}

function writeHeader (header: TSchema) {
  const { description, ...schema } = collectComponents().describe(header)
  return { schema, description }
}
