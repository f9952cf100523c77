/**
 * `oneflight schema`: the JSON Schema of batch files, for editors: of an array of operations, as it
 * is sent, and of the file of a named batch, whose `"$schema"` names the schema.
 */
import { batchSchema, NamedBatchFile, paramsId } from '../../schemas/batch.ts'
import { InsertedParameter, JoinedParameter } from '../../schemas/operation.ts'
import { readLimits, type Limits } from '../config/config.ts'
import {
  changeMember,
  collectComponents,
  describeOperations,
  type Components,
  type JsonSchema
} from '../openapi/json-schema.ts'
import { readSettings } from './arguments.ts'
import type { CliContext } from './terminal.ts'

/** Prints the schema. Returns the exit code. */
export function printSchema ({ env, stdout }: CliContext): number {
  stdout.write(writeBatchSchema(readSettings(readLimits, env)))
  return 0
}

type FileLimits = Pick<Limits, 'MAX_OPS' | 'MAX_ROWS'>

/** Returns the text of the schema, with a line for each definition. */
export function writeBatchSchema (limits: FileLimits): string {
  const { $defs, ...words } = describeBatchFile(limits)
  const write = (members: object): string =>
    Object.entries(members).map(([name, value]) =>
      `${JSON.stringify(name)}: ${JSON.stringify(value)}`
    ).join(',\n')
  return `{\n${write(words)},\n"$defs": {\n${write($defs as object)}\n}\n}\n`
}

type Definitions = Components['schemas']

function describeBatchFile ({ MAX_OPS, MAX_ROWS }: FileLimits): JsonSchema {
  const components = collectComponents('/$defs')
  const named = [InsertedParameter, JoinedParameter].map(schema => components.describe(schema)) as
    [JsonSchema, JsonSchema]
  const definitions = describeOperations(components, { MAX_ROWS })
  components.describe(NamedBatchFile)
  const { NamedBatchFile: file } = components.schemas as { readonly NamedBatchFile: JsonSchema }
  const { minItems, maxItems, description } = batchSchema(MAX_OPS)
  const list = { type: 'array', minItems, maxItems, items: { $ref: '#/$defs/Operation' } }
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'A batch of Oneflight',
    anyOf: [
      { ...list, description },
      changeMember(file, 'operations', operations => ({ ...operations, ...list }))
    ],
    $defs: allowParameters(definitions, named)
  }
}

/** Adds what only the operations of a named batch may have: lists and rows of its parameters. */
function allowParameters (
  definitions: Definitions,
  [inserted, joined]: readonly [JsonSchema, JsonSchema]
): Definitions {
  const { ListReference, InsertSource, JoinedSource, Insert } = definitions as
    Record<'ListReference' | 'InsertSource' | 'JoinedSource' | 'Insert', JsonSchema>
  const parameter = { type: 'string', pattern: `^\\$${paramsId}\\.` }
  return {
    ...definitions,
    ListReference: { anyOf: [ListReference, parameter] },
    InsertSource: { anyOf: [InsertSource, inserted] },
    JoinedSource: { anyOf: [JoinedSource, joined] },
    Insert: changeMember(Insert, 'values', values => ({ anyOf: [values, parameter] }))
  }
}
