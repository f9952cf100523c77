/**
 * The file of a named batch: `<name>.json` in BATCHES_DIR.
 */
import { Type, type Static } from '@sinclair/typebox'

/** The name of a batch, which is the name of its file without `.json`. */
export const batchName = /^[a-z0-9][a-z0-9_-]{0,62}$/

/** The id that references to the parameters of a named batch have. */
export const paramsId = 'params'

export const NamedBatchFile = Type.Object({
  $schema: Type.Optional(
    Type.String({ description: 'the URL of the schema of this file, for editors' })
  ),
  description: Type.Optional(
    Type.String({ description: 'what the batch does, for the OpenAPI description' })
  ),
  roles: Type.Optional(
    Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      description: 'the roles of tokens that may run the batch. Default: every role'
    })
  ),
  params: Type.Optional(
    Type.Unknown({
      description: 'the parameters: a JSON Schema (2020-12) of an object with `properties`'
    })
  ),
  operations: Type.Array(Type.Unknown(), {
    minItems: 1,
    description: 'a batch, in which `"$params.<name>"` stands for a parameter'
  })
}, { additionalProperties: false, title: 'NamedBatchFile' })
export type NamedBatchFile = Static<typeof NamedBatchFile>
