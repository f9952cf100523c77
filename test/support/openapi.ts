/**
 * Validates bodies against the OpenAPI document with Ajv, an implementation of JSON Schema that is
 * independent of TypeBox.
 */
import { createRequire } from 'node:module'
import type { ApiDocument } from '../../src/openapi/document.ts'

export interface Validator {
  (value: unknown): boolean
  readonly errors?:
    | ReadonlyArray<{ readonly instancePath: string, readonly message?: string }>
    | null
}

interface Ajv {
  addSchema(schema: object, key: string): void
  compile(schema: object): Validator
}

// The Ajv of the OpenAPI validator. The Ajv at the top of node_modules belongs to a linter and is
// too old.
const { default: Ajv2020 } = createRequire(
  import.meta.resolve('@seriousme/openapi-schema-validator')
)('ajv/dist/2020.js') as { default: new(options: object) => Ajv }

/**
 * Returns a function that compiles the schema at a JSON pointer (`/components/schemas/Operation`).
 */
export function validatorsOf (document: ApiDocument): (pointer: string) => Validator {
  const ajv = new Ajv2020({ strict: false })
  ajv.addSchema(document, 'api')
  return pointer => ajv.compile({ $ref: `api#${pointer}` })
}

/**
 * Returns the pointer to the schema of a response; `default` for a status that is not described.
 */
export function answerPointer (
  document: ApiDocument,
  path: string,
  method: string,
  status: number
): string {
  const { responses } = document.paths[path]?.[method] as {
    readonly responses: Readonly<Record<string, unknown>>
  }
  const key = Object.hasOwn(responses, status) ? status : 'default'
  return `/paths/${
    path.replaceAll('/', '~1')
  }/${method}/responses/${key}/content/application~1json/schema`
}

export const batchPointer = '/paths/~1/post/requestBody/content/application~1json/schema'
