/**
 * Compiles the JSON Schema of parameters with Ajv. The authors of schemas are trusted, and clients
 * are not: no value may take long to check.
 */
import {
  _,
  Ajv2020,
  type CodeKeywordDefinition,
  type ErrorObject,
  type Options,
  type ValidateFunction
} from 'ajv/dist/2020.js'
import type { Json, JsonObject } from '../json/parse.ts'
import { refuse } from './issues.ts'
import { addNumberKeywords, toDoubles } from './numbers.ts'
import { compilePattern } from './pattern.ts'
import { findRecursive } from './schema-parts.ts'

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'

/** The meta-schema of JSON Schema 2020-12 without unknown keywords, and without these. */
const metaSchema = {
  $id: 'urn:oneflight:params',
  $dynamicAnchor: 'meta',
  $ref: DIALECT,
  properties: {
    $schema: { const: DIALECT },
    // References are paths.
    $id: false,
    $anchor: false,
    $dynamicAnchor: false,
    $dynamicRef: false,
    $recursiveAnchor: false,
    $recursiveRef: false,
    $vocabulary: false,
    dependencies: false,
    // Ajv does not check a member of this name.
    properties: { patternProperties: { '^__proto__$': false } }
  },
  unevaluatedProperties: false
}

const options: Options = {
  strict: true,
  strictNumbers: false,
  strictTypes: false,
  strictTuples: false,
  strictRequired: false,
  validateFormats: false,
  ownProperties: true,
  logger: false
}

/**
 * Compiled once: that takes longer than everything else that is done for a file. With 200 files, it
 * took 5 of 6 seconds.
 */
let validateSchema: ValidateFunction | undefined

/** Returns the errors of a schema. Ajv finds others when it compiles the schema. */
export function findSchemaErrors (schema: Json): readonly ErrorObject[] {
  validateSchema ??= new Ajv2020({ ...options, allErrors: true }).compile(metaSchema)
  return findErrors(validateSchema, toDoubles(schema))
}

/** Returns the errors of values; `first`: only the first one is looked for. */
export type Check = (values: JsonObject, first: boolean) => readonly ErrorObject[]

/** Throws an Error for a schema that Ajv refuses. */
export function compileSchema (schema: JsonObject): Check {
  const recursive = findRecursive(schema)
  const compile = (allErrors: boolean): ValidateFunction => {
    const ajv = new Ajv2020({
      ...options, allErrors, meta: false, validateSchema: false, code: { regExp, optimize: false }
    })
    return limitRecursion(addNumberKeywords(ajv), recursive).compile(toDoubles(schema) as object)
  }
  const isValid = compile(false)
  // Most batches never need it.
  let validate: ValidateFunction | undefined
  return (values, first) => {
    const doubles = toDoubles(values)
    const found = findErrors(isValid, doubles)
    if (first || found.length === 0) return found
    validate ??= compile(true)
    return findErrors(validate, doubles)
  }
}

function findErrors (validate: ValidateFunction, value: unknown): readonly ErrorObject[] {
  followed = 0
  return validate(value) ? [] : validate.errors as readonly ErrorObject[]
}

/** Ajv uses `code` only to write a schema into a file, which does not happen here. */
const regExp = Object.assign(compilePattern, { code: '' })

/**
 * How many references of recursive schemas one check may follow. If two parts of a schema apply it
 * to the same member, each level of a value doubles the work.
 */
const MAX_FOLLOWED = 100_000

let followed = 0

function limitRecursion (ajv: Ajv2020, recursive: ReadonlySet<string>): Ajv2020 {
  const definition = ajv.getKeyword('$ref') as CodeKeywordDefinition
  return ajv.removeKeyword('$ref').addKeyword({
    ...definition,
    code (context) {
      const { gen, schema } = context
      if (recursive.has(schema as string)) {
        gen.code(_`${gen.scopeValue('func', { ref: follow })}()`)
      }
      definition.code(context)
    }
  })
}

/** Throws `params_invalid`. */
function follow (): void {
  followed++
  if (followed <= MAX_FOLLOWED) return
  const message =
    `The parameters have more than ${MAX_FOLLOWED} parts that a recursive schema checks.`
  refuse([{ path: [], message }])
}
