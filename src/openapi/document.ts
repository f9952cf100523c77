/**
 * Builds the OpenAPI 3.1 document with @fastify/swagger, from the routes of a server that never
 * listens. The real routes have no schemas, so Fastify neither validates requests nor serializes
 * responses: rows are sent as PostgreSQL rendered them.
 */
import { createRequire, findPackageJSON } from 'node:module'
import swagger, { type FastifyDynamicSwaggerOptions } from '@fastify/swagger'
import type { TSchema } from '@sinclair/typebox'
import Fastify, { type FastifySchema } from 'fastify'
import { BatchAnswer, batchSchema } from '../../schemas/batch.ts'
import type { Config } from '../../schemas/config.ts'
import { ErrorEnvelope } from '../../schemas/error.ts'
import { exampleAnswer, exampleBatch } from '../../schemas/example.ts'
import {
  AnswerHeaders,
  Healthy,
  RequestHeaders,
  TableList,
  Unhealthy
} from '../../schemas/http.ts'
import { errorAnswers, type BatchKind } from './error-responses.ts'
import {
  collectComponents,
  type Components,
  type JsonSchema,
  describeOperations
} from './json-schema.ts'
import { describeNamedBatches, type DescribedBatch, type Operation } from './named-batches.ts'

export interface ApiDocument {
  readonly openapi: string
  readonly info: object
  readonly servers: ReadonlyArray<{ readonly url: string }>
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> }
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/** The configuration that the document mentions. */
export type DescribedConfig = Pick<
  Config,
  'MAX_OPS' | 'MAX_ROWS' | 'MAX_BODY_BYTES' | 'ANON_ROLE' | 'JWT_ALGORITHMS' | 'API_TABLES'
>

/** The path of the operation from which those of the named batches are made. */
const TEMPLATE = '/batches'

/** `server` is the URL of the main server. It may be relative to the URL of the document. */
export async function describeApi (
  config: DescribedConfig,
  server: string,
  batches: readonly DescribedBatch[] = []
): Promise<ApiDocument> {
  const components = collectComponents()
  const app = Fastify()
  await app.register(swagger, optionsOf(config, server))
  const routes: ReadonlyArray<readonly [method: string, url: string, schema: object]> = [
    ['POST', '/', batchRoute(config, components)],
    ['POST', TEMPLATE, namedBatchRoute(config, components)],
    ...config.API_TABLES === 'on'
      ? [['GET', '/tables', tablesRoute(config, components)] as const]
      : [],
    ['GET', '/health', healthRoute(components)]
  ]
  for (const [method, url, schema] of routes) {
    app.route({ method, url, schema, handler, ...unchecked })
  }
  await app.ready()
  const document = app.swagger() as unknown as ApiDocument
  await app.close()
  const { '/': adhoc, [TEMPLATE]: template, ...others } = document.paths
  const named = describeNamedBatches(batches, template?.['post'] as Operation, config)
  // The library does not convert the components: its conversion for OpenAPI 3.0 drops keywords of
  // 3.1.
  return {
    ...document,
    paths: { '/': adhoc as Operation, ...named.paths, ...others },
    components: {
      ...document.components,
      schemas: { ...describeOperations(components, config), ...named.schemas },
      ...batches.length === 0 ? {} : { responses: named.responses }
    }
  }
}

const { version, license } = createRequire(import.meta.url)(
  findPackageJSON(import.meta.url) as string
) as { readonly version: string, readonly license: string }

/** Never called. */
/* c8 ignore next */
const handler = (): void => {}
const unchecked = {
  exposeHeadRoute: false,
  validatorCompiler: () => () => true,
  serializerCompiler: () => JSON.stringify
}

function optionsOf (config: DescribedConfig, server: string): FastifyDynamicSwaggerOptions {
  return {
    openapi: {
      openapi: '3.1.1',
      info: {
        title: 'Oneflight',
        version,
        description: introduction,
        license: { name: license, identifier: license }
      },
      servers: [{ url: server }],
      components: {
        securitySchemes: tokensOf(config).length === 0
          ? {}
          : {
              bearer: {
                type: 'http',
                scheme: 'bearer',
                bearerFormat: 'JWT',
                description: 'A token with the database role'
              }
            }
      }
    },
    convertConstToEnum: false
  }
}

const introduction =
  'Runs a JSON array of database operations on PostgreSQL as one transaction, with the database ' +
  `role of the caller's token.

A batch is an array of operations that run in order. A string such as \`"$order.0.id"\` refers ` +
  'to a row of an earlier operation. Either all operations are committed or none.'

/** The security requirement of a token; empty when the service accepts no tokens. */
function tokensOf ({ JWT_ALGORITHMS }: DescribedConfig): Array<Record<string, string[]>> {
  return JWT_ALGORITHMS.length === 0 ? [] : [{ bearer: [] }]
}

function batchRoute (config: DescribedConfig, components: Components): FastifySchema {
  return {
    operationId: 'runBatch',
    summary: 'Run a batch',
    description:
      'Runs the operations of a batch in order, as one transaction, and returns the rows of ' +
      `each. Limits: ${config.MAX_OPS} operations, ${config.MAX_ROWS} rows per operation, ` +
      `${config.MAX_BODY_BYTES} bytes.`,
    ...commonParts(config),
    body: batchBody(config),
    response: batchResponses('adhoc', components)
  } as FastifySchema
}

function namedBatchRoute (config: DescribedConfig, components: Components): FastifySchema {
  return { ...commonParts(config), response: batchResponses('named', components) } as FastifySchema
}

/** Without a token, the anonymous role is used. */
function securityOf (config: DescribedConfig): object[] {
  return [...tokensOf(config), ...(config.ANON_ROLE === undefined ? [] : [{}])]
}

/** What all requests that run a batch have in common. */
function commonParts (config: DescribedConfig): object {
  const headers = Object.entries(RequestHeaders.properties)
  return {
    security: securityOf(config),
    headers: {
      type: 'object',
      properties: Object.fromEntries(headers.map(([name, schema]) => [name, writeHeader(schema)]))
    }
  }
}

function batchBody (config: DescribedConfig): object {
  const { minItems, maxItems, description } = batchSchema(config.MAX_OPS)
  return {
    type: 'array',
    description,
    minItems,
    maxItems,
    items: { $ref: '#/components/schemas/Operation' },
    'x-examples': {
      order: {
        summary: 'Create a customer and an order with its lines, then mark it as paid',
        value: exampleBatch
      }
    }
  }
}

function batchResponses (kind: BatchKind, components: Components): object {
  const envelope = components.describe(ErrorEnvelope)
  const failed = errorAnswers(kind).map(({ status, ...answer }) =>
    [status, answerOf({ ...answer, schema: envelope })])
  return {
    200: answerOf({
      description: BatchAnswer.description as string,
      schema: components.describe(BatchAnswer),
      ...kind === 'adhoc' && {
        examples: { order: { summary: 'Rows of every operation', value: exampleAnswer } }
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

function tablesRoute (config: DescribedConfig, components: Components): FastifySchema {
  return {
    operationId: 'listTables',
    summary: 'List tables',
    description: 'Lists the tables and columns that the role of the token may use.',
    security: securityOf(config),
    response: {
      200: answerOf({
        description: TableList.description as string,
        schema: components.describe(TableList)
      }),
      default: answerOf({
        description: 'The token is refused, or the database is unavailable.',
        schema: components.describe(ErrorEnvelope)
      })
    }
  } as FastifySchema
}

function healthRoute (components: Components): FastifySchema {
  return {
    operationId: 'checkHealth',
    summary: 'Health check',
    description: 'Checks that the database is available. For load balancers. Requires no token.',
    security: [],
    response: {
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
  } as FastifySchema
}

interface Answer {
  readonly description: string
  readonly schema: JsonSchema
  readonly examples?: Readonly<Record<string, unknown>>
  /** Names of headers, in lower case. */
  readonly headers?: readonly string[]
}

function answerOf ({ description, schema, examples = {}, headers = ['x-request-id'] }: Answer) {
  const all = Object.entries<TSchema>(AnswerHeaders.properties)
  return {
    description,
    headers: Object.fromEntries(
      all.filter(([name]) => headers.includes(name.toLowerCase()))
        .map(([name, header]) => [name, writeHeader(header)])
    ),
    content: {
      'application/json': { schema, ...(Object.keys(examples).length === 0 ? {} : { examples }) }
    }
  }
}

/** Keeps the description, which the library removes from the schema. */
function writeHeader (schema: TSchema): JsonSchema {
  return collectComponents().describe(schema)
}
