/**
 * Operators of other languages (SQL, Prisma, Hasura, MongoDB, PostgREST and its clients) and what
 * to write instead.
 */

/** An operator of the batch language with an operand, and when to use it if there is a choice. */
type Example = readonly [operator: string, operand: string, use?: string]

/**
 * The names of operators, in lower case and without `_`, `-`, spaces and a leading `$`, and what to
 * write instead of them.
 */
const advice: ReadonlyArray<readonly [names: string, ...Example[]]> = [
  ['== === equal', ['eq', '"apple"']],
  ['!= !== notequal notequals noteq', ['neq', '"apple"']],
  ['greaterthan morethan after', ['gt', '10']],
  ['ge greaterthanorequal greaterthanequal greaterorequal min', ['gte', '10']],
  ['lessthan before', ['lt', '10']],
  ['le lessthanorequal lessthanequal lessorequal max', ['lte', '10']],
  ['oneof anyof', ['in', '["apple", "pear"]']],
  ['notin notoneof noneof', ['nin', '["apple", "pear"]']],
  ['range', ['between', '[10, 19]']],
  [
    'contains icontains includes',
    ['ilike', '"%apple%"', 'for a part of a text'],
    ['cs', '["apple"]', 'for elements of an array or members of jsonb']
  ],
  ['has arraycontains', ['cs', '["apple"]']],
  ['hasevery', ['cs', '["apple", "pear"]']],
  ['containedby containedin', ['cd', '["apple", "pear"]']],
  ['overlap overlaps hassome arrayoverlaps arraycontainsany', ['ov', '["apple", "pear"]']],
  ['startswith beginswith prefix', ['like', '"apple%"']],
  ['istartswith', ['ilike', '"apple%"']],
  ['endswith suffix', ['like', '"%apple"']],
  ['iendswith', ['ilike', '"%apple"']],
  ['notlike nlike', ['not', '{"like": "apple%"}']],
  ['notilike nilike', ['not', '{"ilike": "apple%"}']],
  ['notbetween', ['not', '{"between": [10, 19]}']],
  ['regex regexp rlike similar', ['match', '"^apple"']],
  ['iregex', ['imatch', '"^apple"']],
  ['isnull null', ['is', 'null']],
  ['isnot isnotnull notnull exists isset', ['is', '"not_null"']],
  ['search text textsearch websearch fulltext', ['wfts', '"apple pear"']],
  ['tsquery @@', ['fts', '"apple & pear"']],
  ['haskey', ['has_key', '"apple"']],
  ['haskeysany', ['has_keys_any', '["apple", "pear"]']],
  ['haskeysall', ['has_keys_all', '["apple", "pear"]']]
]

const examplesByName: ReadonlyMap<string, readonly Example[]> = new Map(
  advice.flatMap(([names, ...examples]) => names.split(' ').map(name => [name, examples] as const))
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
