/**
 * The public API of the package: `createClient`, `$`, `OneflightError`, and their types.
 */
export { createClient, type Client } from './client.ts'
export { $ } from './modifiers.ts'
export {
  OneflightError,
  type ClientErrorCode,
  type ErrorCode,
  type ErrorType,
  type Issue,
  type PostgresErrorCode,
  type ServiceErrorCode
} from './error.ts'
export type { AnyDatabase, ColumnType, Generated } from './database.ts'
export type { Json, JsonInput } from './json.ts'
export type { Batch, Operation, RowCount, Where } from './operation.ts'
export type {
  AnyBatches,
  BatchOptions,
  BatchResult,
  ClientOptions,
  Fetch,
  QueryPlan,
  RetryOptions,
  ServerTiming,
  TraceContext,
  UploadOptions
} from './options.ts'
export type { Modifier, Reference, ReferenceList, RowReference } from './reference.ts'
export type { UploadRows } from './upload.ts'
export type { Numbers } from './values.ts'
