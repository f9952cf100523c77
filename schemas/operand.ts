/**
 * The operands of filters: what each kind of operator takes. filter.ts lists the keywords that
 * schemas have in addition to TypeBox's own.
 */
import { Type, type TProperties, type TSchema } from '@sinclair/typebox'

/** Which references a string may be: to one value, to a list, to either, or none (a constant). */
export type ReferenceKind = 'value' | 'list' | 'any' | 'none'

/**
 * Matches strings that must be a reference, so that a typo is refused. `$5.00` and `$2b$10$…` are
 * data.
 */
export const referenceAttempt = /^\$[A-Za-z_][A-Za-z0-9_]*(?:\.|$)/

/** Matches an object with one key that begins with `$`. Such an object is never data. */
export const dollarObject = {
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
      'a string, or a reference to a value of an earlier operation: `$order.0.id`. An additional ' +
      '`$` makes such a text a plain string: `$$order.0.id`'
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
    description: 'a string that is not a reference'
  })
}

const exact = { exact: true, additionalProperties: false }
const exactly = (members: TProperties, title: string, description: string) =>
  Type.Object(members, { ...exact, title, description })

export const maxFirstReferences = 10

/** What `$first` takes. context.ts checks that each names a column of one row. */
export const firstReferences = Type.Array(
  Type.String({
    reference: 'any',
    pattern: referenceAttempt.source,
    expected: 'a reference to a column of one row, for example "$found.0.id"'
  }),
  {
    minItems: 1,
    maxItems: maxFirstReferences,
    expected: 'a non-empty array of references, for example ["$found.0.id", "$created.0.id"]'
  }
)

/** `{"$first": [reference, …]}`: it stands for a reference. */
export const First =
  exactly({ $first: firstReferences }, 'First', 'the first of these references whose row exists')

/** A scalar whose strings may be such references. */
export function scalarOf (reference: ReferenceKind, title: string): TSchema {
  const first = reference === 'none' ? [] : [First]
  return Type.Union([strings[reference], Type.Number(), Type.Boolean(), ...first], { title })
}

const text = Type.Union([strings.value, First])

const anything = Type.Unknown({ reference: 'any' })
const path = Type.String({ name: 'path' })
const scalar = scalarOf('value', 'Scalar')
/** A scalar, or a reference to one row. */
export const PageValue = Type.Union([strings.value, Type.Number(), Type.Boolean(), Type.Null()], {
  title: 'PageValue'
})

/** `{"$col": column}`: another column of the row. */
export const ColumnOperand = exactly({ $col: path }, 'Column', 'another column of the row')
/** `{"$excluded": column}`: a column of the row proposed for insertion. */
export const ExcludedOperand =
  exactly({ $excluded: path }, 'ExcludedColumn', 'a column of the row proposed for insertion')
/** `{"$from": column}`: a column of the rows in `from`. */
export const SourceOperand =
  exactly({ $from: path }, 'SourceColumn', 'a column or an alias of `from`')
const value =
  exactly({ $value: anything }, 'Json', 'any JSON, converted to the type of the column')
const listOf = (item: TSchema) =>
  Type.Union([Type.Array(item, { minItems: 1 }), strings.list], {
    expected: 'a non-empty array or a reference $op.*.column'
  })
const any = exactly({ any: listOf(scalar) }, 'AnyOf',
  'true if the comparison is true for at least one element of the list')
const all = exactly({ all: listOf(scalar) }, 'AllOf',
  'true if the comparison is true for every element of the list')
/** PostgreSQL reads digits or `-` as the number of a configuration, which need not exist. */
const configuration = Type.String({
  pattern: '^(?!(\\d+|-)$)',
  expected: 'the name of a text search configuration, such as english',
  description: 'a text search configuration'
})
const search = Type.Object({ query: text, config: Type.Optional(configuration) }, {
  additionalProperties: false,
  title: 'SearchQuery'
})

export const Keyword = Type.Union([
  Type.Null(),
  Type.Literal('not_null'),
  Type.Literal(true),
  Type.Literal(false),
  Type.Literal('unknown')
])

interface OperandGrammar {
  /** `columns` is the schema of operands that name a column. */
  readonly schema: (columns: TSchema) => TSchema
  readonly description: string
}

/** The kinds of operands. `json` is anything but null, converted to the type of the column. */
export const operands = {
  comparand: {
    schema: columns => Type.Union([scalar, columns, value, any, all]),
    description: 'a string, number or boolean, a reference, `{"$col": column}`, ' +
      '`{"any": […]}`, `{"all": […]}` or `{"$value": json}`'
  },
  distinct: {
    schema: columns => Type.Union([scalar, Type.Null(), columns, value]),
    description:
      'a string, number, boolean or null, a reference, `{"$col": column}` or `{"$value": json}`'
  },
  list: {
    schema: () => Type.Union([Type.Array(scalar), strings.list]),
    description: 'an array of scalars and references, or a reference `$op.*.column`'
  },
  nonEmptyList: {
    schema: () => listOf(scalar),
    description: 'a non-empty array of scalars and references, or a reference `$op.*.column`'
  },
  bounds: {
    schema: columns => Type.Array(Type.Union([scalar, columns]), { minItems: 2, maxItems: 2 }),
    description:
      '`[low, high]`, each a string, number or boolean, a reference or `{"$col": column}`'
  },
  keyword: {
    schema: () => Keyword,
    description: '`null`, `"not_null"`, `true`, `false` or `"unknown"`'
  },
  search: {
    schema: () => Type.Union([text, search]),
    description: 'a query, or `{"query", "config"}`'
  },
  json: {
    schema: columns =>
      Type.Union([
        scalarOf('any', 'JsonScalar'),
        Type.Array(anything),
        columns,
        value,
        Type.Record(Type.String(), anything, { not: dollarObject })
      ]),
    description: 'any JSON but null, converted to the type of the column, or `{"$col": column}`'
  },
  key: { schema: () => text, description: 'a key' },
  keys: {
    schema: () => listOf(text),
    description: 'a non-empty array of keys, or a reference `$op.*.column`'
  }
} as const satisfies Record<string, OperandGrammar>

export type OperandKind = keyof typeof operands
