/**
 * Operators of other languages (SQL, Prisma, Hasura, MongoDB, PostgREST and its clients) and what
 * to write instead.
 */

/** An operator of the batch language with an operand, and when to use it if there is a choice. */
type Example = readonly [operator: string, operand: string, use?: string]

const contains: readonly Example[] = [
  ['ilike', '"%apple%"', 'for a part of a text'],
  ['cs', '["apple"]', 'for elements of an array or members of jsonb']
]
const greater: readonly Example[] = [['gt', '10']]
const greaterOrEqual: readonly Example[] = [['gte', '10']]
const less: readonly Example[] = [['lt', '10']]
const lessOrEqual: readonly Example[] = [['lte', '10']]
const equal: readonly Example[] = [['eq', '"apple"']]
const notEqual: readonly Example[] = [['neq', '"apple"']]
const oneOf: readonly Example[] = [['in', '["apple", "pear"]']]
const noneOf: readonly Example[] = [['nin', '["apple", "pear"]']]
const overlaps: readonly Example[] = [['ov', '["apple", "pear"]']]
const isNull: readonly Example[] = [['is', 'null']]
const isNotNull: readonly Example[] = [['is', '"not_null"']]
const search: readonly Example[] = [['wfts', '"apple pear"']]

/** By their names in lower case, without `_`, `-`, spaces and a leading `$`. */
const foreignOperators: Readonly<Record<string, readonly Example[]>> = {
  '==': equal,
  '===': equal,
  equal,
  '!=': notEqual,
  '!==': notEqual,
  notequal: notEqual,
  notequals: notEqual,
  noteq: notEqual,
  greaterthan: greater,
  morethan: greater,
  after: greater,
  ge: greaterOrEqual,
  greaterthanorequal: greaterOrEqual,
  greaterthanequal: greaterOrEqual,
  greaterorequal: greaterOrEqual,
  min: greaterOrEqual,
  lessthan: less,
  before: less,
  le: lessOrEqual,
  lessthanorequal: lessOrEqual,
  lessthanequal: lessOrEqual,
  lessorequal: lessOrEqual,
  max: lessOrEqual,
  oneof: oneOf,
  anyof: oneOf,
  notin: noneOf,
  notoneof: noneOf,
  noneof: noneOf,
  range: [['between', '[10, 19]']],
  contains,
  icontains: contains,
  includes: contains,
  has: [['cs', '["apple"]']],
  hasevery: [['cs', '["apple", "pear"]']],
  arraycontains: [['cs', '["apple"]']],
  containedby: [['cd', '["apple", "pear"]']],
  containedin: [['cd', '["apple", "pear"]']],
  overlap: overlaps,
  overlaps,
  hassome: overlaps,
  arrayoverlaps: overlaps,
  arraycontainsany: overlaps,
  startswith: [['like', '"apple%"']],
  istartswith: [['ilike', '"apple%"']],
  beginswith: [['like', '"apple%"']],
  prefix: [['like', '"apple%"']],
  endswith: [['like', '"%apple"']],
  iendswith: [['ilike', '"%apple"']],
  suffix: [['like', '"%apple"']],
  notlike: [['not', '{"like": "apple%"}']],
  nlike: [['not', '{"like": "apple%"}']],
  notilike: [['not', '{"ilike": "apple%"}']],
  nilike: [['not', '{"ilike": "apple%"}']],
  notbetween: [['not', '{"between": [10, 19]}']],
  regex: [['match', '"^apple"']],
  regexp: [['match', '"^apple"']],
  rlike: [['match', '"^apple"']],
  iregex: [['imatch', '"^apple"']],
  similar: [['match', '"^apple"']],
  isnull: isNull,
  null: isNull,
  isnot: isNotNull,
  isnotnull: isNotNull,
  notnull: isNotNull,
  exists: isNotNull,
  isset: isNotNull,
  search,
  text: search,
  textsearch: search,
  websearch: search,
  fulltext: search,
  tsquery: [['fts', '"apple & pear"']],
  '@@': [['fts', '"apple & pear"']],
  haskey: [['has_key', '"apple"']],
  haskeysany: [['has_keys_any', '["apple", "pear"]']],
  haskeysall: [['has_keys_all', '["apple", "pear"]']]
}

const examplesByName: ReadonlyMap<string, readonly Example[]> = new Map(
  Object.entries(foreignOperators).map(([name, examples]) => [toKey(name), examples])
)

function toKey (name: string): string {
  return name.toLowerCase().replaceAll(/[_ -]/g, '').replace(/^\$/, '')
}

/** Longest name that is looked up. */
const MAX_LENGTH = 32

/** Returns what to write instead of an operator of another language, or undefined. */
export function adviseOperator (name: string, known: readonly string[]): string | undefined {
  if (name.length > MAX_LENGTH) return undefined
  const [, negated] = /^not?\.(\w+)$/.exec(name) ?? []
  if (negated !== undefined && known.includes(negated) && known.includes('not')) {
    return `Write {"not": {"${negated}": …}}.`
  }
  const examples = (examplesByName.get(toKey(name)) ?? [])
    .filter(([operator]) => known.includes(operator))
    .map(([operator, operand, use]) =>
      `{"${operator}": ${operand}}${use === undefined ? '' : ` ${use}`}`)
  return examples.length === 0 ? undefined : `Write ${examples.join(', or ')}.`
}
