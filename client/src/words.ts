/**
 * The operators and limits of the batch language that the client needs to know. A test compares
 * them with the service's schemas.
 */

/** The kind of operand that each operator takes. It determines how the operand is written. */
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
  nin: 'nonEmptyList',
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

/** Maximum nesting depth of arrays and objects in a batch, including its own array. */
export const maxDepth = 100

export const operationId = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Matches valid idempotency keys, except the quoted form. */
export const idempotencyKey = /^[!\x23-\x7e][\x21-\x7e]{0,254}$/
