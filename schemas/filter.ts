/**
 * The grammar of `where`: column → { operator: operand, … }, everything AND-ed, with `and`, `or`
 * and `not` around it. One row of `operators` is all that an operator needs: its SQL, what it takes
 * and what it means.
 *
 * Beside TypeBox's own words schemas say: `fault`, the code when a value does not fit (inherited by
 * what is inside); `empty`, the same for too few items or members; `unknown`, the same for a member
 * that is not named; `closed`: an object that is wrong as a whole when one member is missing or too
 * many; `nests`: members inside which a filter is one level deeper; `reference`: which references
 * strings may be; `name`: a string, `keys`: the keys of an object, that name a column (`column`),
 * one that may not have a path (`plain`) or one that may (`path`); `expected`: the value in words.
 * Only for readers of the API's description: `title`, under which a schema is described once;
 * `meaning`, what it stands for at its place; `described`, a schema that says more; and JSON
 * Schema's `not`, `if`, `then`, `else`, `dependentRequired` and `dependentSchemas`, for what is
 * checked elsewhere.
 */
import { Type, type TObject, type TSchema } from '@sinclair/typebox'
import type { IssueCode } from './error.ts'

/** Most combinators one inside the other, `not` of a column counted. */
export const maxFilterDepth = 10

/**
 * Which references a string may be: to one value, to a list alone, to anything, or none (it is a
 * constant).
 */
export type ReferenceKind = 'value' | 'list' | 'any' | 'none'

/**
 * A string that begins like this is meant as a reference, so a typo is refused; `$5.00` and
 * `$2b$10$…` stay data.
 */
export const referenceAttempt = /^\$[A-Za-z_][A-Za-z0-9_]*(?:\.|$)/

/** An object with one key that begins with `$` is never data. */
export const special = {
  type: 'object',
  minProperties: 1,
  maxProperties: 1,
  propertyNames: { pattern: '^\\$' }
}

const strings: Readonly<Record<ReferenceKind, TSchema>> = {
  value: Type.String({
    reference: 'value',
    title: 'Text',
    description:
      'a string, or a reference to a value of an earlier operation: `$order.0.id`. One ' +
      'more `$` before such a text makes it a plain string'
  }),
  list: Type.String({
    reference: 'list',
    title: 'ListReference',
    description: 'a reference to a column of all rows of an earlier operation: `$order.*.id`'
  }),
  any: Type.String({ reference: 'any' }),
  none: Type.String({
    reference: 'none',
    title: 'ConstantText',
    description: 'a string that is no reference'
  })
}
const string = (reference: ReferenceKind) => strings[reference]
const scalarOf = (reference: ReferenceKind, title: string) =>
  Type.Union([string(reference), Type.Number(), Type.Boolean()], { title })
const closed = { closed: true, additionalProperties: false }
const anything = Type.Unknown({ reference: 'any' })
const scalar = scalarOf('value', 'Scalar')
const column = Type.Object({ $col: Type.String({ name: 'path' }) }, {
  ...closed,
  title: 'Column',
  description: 'another column of the row'
})
const excluded = Type.Object({ $excluded: Type.String({ name: 'path' }) }, {
  ...closed,
  title: 'ExcludedColumn',
  description: 'a column of the row that was to be inserted'
})
const value = Type.Object({ $value: Type.Unknown({ reference: 'any' }) }, {
  ...closed,
  title: 'Json',
  description: 'JSON that takes the type of the column, whatever it looks like'
})
const listOf = (item: TSchema) =>
  Type.Union([Type.Array(item, { minItems: 1 }), string('list')], {
    expected: 'a non-empty array or a reference $op.*.column'
  })
const any = Type.Object({ any: listOf(scalar) }, {
  ...closed,
  title: 'AnyOf',
  description: 'true for one of the list, or several'
})
const all = Type.Object({ all: listOf(scalar) }, {
  ...closed,
  title: 'AllOf',
  description: 'true for all of the list'
})
const search = Type.Object({
  query: string('value'),
  config: Type.Optional(Type.String({ description: 'a text search configuration' }))
}, closed)

interface OperandGrammar {
  /** `columns`: what compares with a column. */
  readonly schema: (columns: TSchema) => TSchema
  readonly description: string
}

/** What operators take. `json`: anything but null, read as the column's type. */
export const operands = {
  comparand: {
    schema: columns => Type.Union([scalar, columns, value, any, all]),
    description: 'a string, number or boolean, a reference, `{"$col": column}`, `{"any": […]}`, ' +
      '`{"all": […]}` or `{"$value": json}`'
  },
  distinct: {
    schema: columns => Type.Union([scalar, Type.Null(), columns, value]),
    description:
      'a string, number, boolean or null, a reference, `{"$col": column}` or `{"$value": json}`'
  },
  list: {
    schema: () => listOf(scalar),
    description: 'a non-empty array of scalars and references, or a reference `$op.*.column`'
  },
  bounds: {
    schema: columns => Type.Array(Type.Union([scalar, columns]), { minItems: 2, maxItems: 2 }),
    description:
      '`[low, high]`, each a string, number or boolean, a reference or `{"$col": column}`'
  },
  keyword: {
    schema: () => keyword,
    description: '`null`, `"not_null"`, `true`, `false` or `"unknown"`'
  },
  search: {
    schema: () => Type.Union([string('value'), search]),
    description: 'a query, or `{"query", "config"}`'
  },
  json: {
    schema: columns =>
      Type.Union([
        scalarOf('any', 'JsonScalar'),
        Type.Array(anything),
        columns,
        value,
        Type.Record(Type.String(), anything, { not: special })
      ]),
    description: 'JSON that takes the type of the column, or `{"$col": column}`'
  },
  key: { schema: () => string('value'), description: 'a key' },
  keys: {
    schema: () => listOf(string('value')),
    description: 'a non-empty array of keys, or a reference `$op.*.column`'
  }
} as const satisfies Record<string, OperandGrammar>

const keyword = Type.Union([
  Type.Null(),
  Type.Literal('not_null'),
  Type.Literal(true),
  Type.Literal(false),
  Type.Literal('unknown')
])

export type OperandKind = keyof typeof operands

/**
 * An operator. `sql` has holes for the column, the operand and, for full text, the column's
 * `<document>`; `constant`: it may stand in `on_conflict.index_where`.
 */
export interface Operator {
  readonly takes: OperandKind
  readonly sql: string
  readonly meaning: string
  readonly constant?: boolean
  readonly emptyMeets?: boolean
}

/**
 * What has to be said of an operator. `emptyMeets`, where its operand can be a list or an array:
 * whether every row meets an empty one, or nearly every row; a list of an earlier operation that
 * turns out to be empty is then refused.
 */
type OperatorRow =
  & Operator
  & (
    | { readonly takes: 'bounds' | 'keyword' | 'search' | 'key' }
    | {
      readonly takes: 'comparand' | 'distinct' | 'json' | 'list' | 'keys',
      readonly emptyMeets: boolean
    }
  )

export const operators = {
  eq: {
    takes: 'comparand',
    sql: '<column> = <operand>',
    meaning: 'equal',
    emptyMeets: false,
    constant: true
  },
  neq: {
    takes: 'comparand',
    sql: '<column> <> <operand>',
    meaning: 'not equal',
    emptyMeets: true,
    constant: true
  },
  gt: {
    takes: 'comparand',
    sql: '<column> > <operand>',
    meaning: 'greater',
    emptyMeets: true,
    constant: true
  },
  gte: {
    takes: 'comparand',
    sql: '<column> >= <operand>',
    meaning: 'greater or equal',
    emptyMeets: true,
    constant: true
  },
  lt: {
    takes: 'comparand',
    sql: '<column> < <operand>',
    meaning: 'less',
    emptyMeets: false,
    constant: true
  },
  lte: {
    takes: 'comparand',
    sql: '<column> <= <operand>',
    meaning: 'less or equal',
    emptyMeets: false,
    constant: true
  },
  like: {
    takes: 'comparand',
    sql: '<column> like <operand>',
    meaning: 'SQL pattern, case matters',
    emptyMeets: false
  },
  ilike: {
    takes: 'comparand',
    sql: '<column> ilike <operand>',
    meaning: 'SQL pattern, case ignored',
    emptyMeets: false
  },
  match: {
    takes: 'comparand',
    sql: '<column> ~ <operand>',
    meaning: 'POSIX regular expression, case matters',
    emptyMeets: false
  },
  imatch: {
    takes: 'comparand',
    sql: '<column> ~* <operand>',
    meaning: 'POSIX regular expression, case ignored',
    emptyMeets: false
  },
  in: {
    takes: 'list',
    sql: '<column> = any (<operand>)',
    meaning: 'equal to one of the list',
    emptyMeets: false,
    constant: true
  },
  nin: {
    takes: 'list',
    sql: '<column> <> all (<operand>)',
    meaning: 'equal to none of the list',
    emptyMeets: true
  },
  between: {
    takes: 'bounds',
    sql: '<column> between <operand>',
    meaning: 'from low to high, both included'
  },
  is: {
    takes: 'keyword',
    sql: '<column> is <operand>',
    meaning: 'null or not, or the truth of a boolean',
    constant: true
  },
  isdistinct: {
    takes: 'distinct',
    sql: '<column> is distinct from <operand>',
    meaning: 'not equal, where null equals null',
    emptyMeets: true
  },
  fts: {
    takes: 'search',
    sql: '<document> @@ to_tsquery(<operand>)',
    meaning: 'full text, query with operators'
  },
  plfts: {
    takes: 'search',
    sql: '<document> @@ plainto_tsquery(<operand>)',
    meaning: 'full text, all of the words'
  },
  phfts: {
    takes: 'search',
    sql: '<document> @@ phraseto_tsquery(<operand>)',
    meaning: 'full text, the words in a row'
  },
  wfts: {
    takes: 'search',
    sql: '<document> @@ websearch_to_tsquery(<operand>)',
    meaning: 'full text, as in a search engine'
  },
  cs: {
    takes: 'json',
    sql: '<column> @> <operand>',
    meaning: 'contains (arrays, jsonb, ranges)',
    emptyMeets: true
  },
  cd: {
    takes: 'json',
    sql: '<column> <@ <operand>',
    meaning: 'is contained in (arrays, jsonb, ranges)',
    emptyMeets: false
  },
  ov: {
    takes: 'json',
    sql: '<column> && <operand>',
    meaning: 'overlaps (arrays, ranges)',
    emptyMeets: false
  },
  sl: {
    takes: 'json',
    sql: '<column> << <operand>',
    meaning: 'range strictly left of',
    emptyMeets: false
  },
  sr: {
    takes: 'json',
    sql: '<column> >> <operand>',
    meaning: 'range strictly right of',
    emptyMeets: false
  },
  nxr: {
    takes: 'json',
    sql: '<column> &< <operand>',
    meaning: 'range does not extend to the right of',
    emptyMeets: false
  },
  nxl: {
    takes: 'json',
    sql: '<column> &> <operand>',
    meaning: 'range does not extend to the left of',
    emptyMeets: false
  },
  adj: {
    takes: 'json',
    sql: '<column> -|- <operand>',
    meaning: 'range is adjacent to',
    emptyMeets: false
  },
  has_key: { takes: 'key', sql: '<column> ? <operand>', meaning: 'jsonb has the key' },
  has_keys_any: {
    takes: 'keys',
    sql: '<column> ?| <operand>',
    meaning: 'jsonb has one of the keys',
    emptyMeets: false
  },
  has_keys_all: {
    takes: 'keys',
    sql: '<column> ?& <operand>',
    meaning: 'jsonb has all of the keys',
    emptyMeets: true
  }
} as const satisfies Record<string, OperatorRow>

export type OperatorName = keyof typeof operators

const allOperators: ReadonlyArray<readonly [string, Operator]> = Object.entries(operators)

type Tests = ReadonlyArray<readonly [operator: string, operand: TSchema]>

/**
 * The operators and column-level `not`. `empty`: the code of a filter that holds nothing; `title`:
 * that of the filter.
 */
function operatorMap (tests: Tests, empty: IssueCode, title: string): TSchema {
  return Type.Recursive(This =>
    Type.Object(
      {
        ...Object.fromEntries(tests.map(([name, schema]) => [name, Type.Optional(schema)])),
        not: Type.Optional(This)
      },
      {
        additionalProperties: false,
        minProperties: 1,
        unknown: 'operator_unknown',
        empty,
        fault: 'operand_invalid',
        nests: ['not'],
        title: `${title}Tests`,
        description: 'operator → operand; all of them must hold'
      }
    )
  )
}

/** A filter may be empty; what stands inside `and`, `or` and `not` may not. */
function filterOf (
  tests: Tests,
  { empty, keys, title }: {
    readonly empty: IssueCode,
    readonly keys: 'plain' | 'path',
    readonly title: string
  }
): TObject {
  const combinators = (inner: TSchema) => ({
    and: Type.Optional(
      Type.Array(inner, {
        minItems: 1,
        empty,
        fault: 'operand_invalid',
        description: 'filters that must all hold'
      })
    ),
    or: Type.Optional(
      Type.Array(inner, {
        minItems: 1,
        empty,
        fault: 'operand_invalid',
        description: 'filters of which one must hold'
      })
    ),
    not: Type.Optional({ ...inner, meaning: 'a filter that must not hold' })
  })
  const common = {
    additionalProperties: operatorMap(tests, empty, title),
    keys,
    nests: ['and', 'or', 'not'],
    description: 'column → { operator: operand, … }; `and`, `or`, `not` around filters'
  }
  const inner = Type.Recursive(This =>
    Type.Object(combinators(This), {
      ...common,
      minProperties: 1,
      empty,
      fault: 'operand_invalid',
      title: `Nested${title}`
    })
  )
  return Type.Object(combinators(inner), { ...common, title })
}

/** What each operator takes where `columns` are what compares with a column. */
function testsWith (columns: TSchema): Tests {
  return allOperators.map(([name, { takes, meaning }]) => {
    const { schema, description } = operands[takes]
    const operand = schema(columns)
    const place = JSON.stringify(operand).includes('$excluded') ? 'Conflict' : ''
    return [name, {
      ...operand,
      title: `${place}${capitalize(takes)}Operand`,
      description,
      expected: description,
      meaning
    }]
  })
}

function capitalize (word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}

const constant = scalarOf('none', 'Constant')
const constants: Partial<Record<OperandKind, TSchema>> = {
  comparand: constant,
  list: Type.Array(constant, { minItems: 1 }),
  keyword
}
const constantTests = allOperators.flatMap(([name, { takes, constant, meaning }]): Tests =>
  constant === true ? [[name, { ...constants[takes] as TSchema, meaning }]] : []
)

/** `{"$col": column}`: another column of the row. */
export const ColumnOperand = column
/** `where` of a select. */
export const Filter = filterOf(testsWith(column), {
  empty: 'operand_invalid',
  keys: 'path',
  title: 'Filter'
})
/**
 * `where` of update and delete, where a filter that meets every row by accident is the worst of
 * faults.
 */
export const ChangingFilter = filterOf(testsWith(column), {
  empty: 'where_empty',
  keys: 'path',
  title: 'Filter'
})
/** `on_conflict.where`, where a condition can also look at the row that was to be inserted. */
export const ConflictFilter = filterOf(testsWith(Type.Union([column, excluded])), {
  empty: 'where_empty',
  keys: 'path',
  title: 'ConflictFilter'
})
/**
 * `on_conflict.index_where`: becomes part of the statement's text, for PostgreSQL allows no
 * parameter there.
 */
export const IndexFilter = filterOf(constantTests, {
  empty: 'operand_invalid',
  keys: 'plain',
  title: 'IndexFilter'
})
