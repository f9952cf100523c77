/**
 * The words of the batch language as far as the client has to tell them apart. A test holds them
 * against the service's own schemas.
 */

/** What each operator takes: it decides how an operand is written. */
export const operators = {
  eq: 'comparand',
  neq: 'comparand',
  gt: 'comparand',
  gte: 'comparand',
  lt: 'comparand',
  lte: 'comparand',
  like: 'comparand',
  ilike: 'comparand',
  match: 'comparand',
  imatch: 'comparand',
  in: 'list',
  nin: 'list',
  between: 'bounds',
  is: 'keyword',
  isdistinct: 'distinct',
  fts: 'search',
  plfts: 'search',
  phfts: 'search',
  wfts: 'search',
  cs: 'json',
  cd: 'json',
  ov: 'json',
  sl: 'json',
  sr: 'json',
  nxr: 'json',
  nxl: 'json',
  adj: 'json',
  has_key: 'key',
  has_keys_any: 'keys',
  has_keys_all: 'keys'
} as const

export type OperatorName = keyof typeof operators
export type OperandKind = (typeof operators)[OperatorName]

/** Deepest nesting of arrays and objects in a batch, its own array counted. */
export const maxDepth = 100

/** What the id of an operation may be. */
export const operationId = /^[A-Za-z_][A-Za-z0-9_]*$/

/** What an `Idempotency-Key` may be, here without the form in quotes. */
export const idempotencyKey = /^[!\x23-\x7e][\x21-\x7e]{0,254}$/
