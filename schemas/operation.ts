/**
 * The grammar of one operation: the members of each kind. filter.ts lists the keywords that schemas
 * have in addition to TypeBox's own.
 */
import { Type, type ArrayOptions, type Static, type TObject, type TSchema } from '@sinclair/typebox'
import { Cast } from './cast.ts'
import {
  ChangingFilter,
  ConflictFilter,
  Filter,
  IndexFilter,
  FunctionText,
  On,
  TableText
} from './filter.ts'
import { ConflictNewValue, NewColumn, NewValue } from './modifier.ts'
import { oneOf } from './one-of.ts'
import { PageValue } from './operand.ts'

/** Maximum nesting of arrays and objects in a body, including the array of the batch. */
export const maxDepth = 100

/**
 * PostgreSQL's NAMEDATALEN - 1. PostgreSQL truncates a longer identifier, which could then name
 * something else.
 */
export const maxIdentifierBytes = 63

/** PostgreSQL's largest int4: the largest position of a row or an array element. */
export const maxInt4 = 2_147_483_647

/** PostgreSQL's MaxHeapAttributeNumber: no table has more columns. */
export const maxColumns = 1600

/**
 * Maximum number of names, operators and references of a batch, of which the text of its statements
 * consists. It keeps planning and compiling below 100 ms each. Measured: 10 000 of the cheapest
 * parts took 20 ms each, of the most expensive ones (references in `$first` and in JSON that is
 * compared) 25 and 100 ms.
 */
export const maxParts = 8000

/** Maximum conditions of a filter. More of them come from lists, which take one condition. */
export const maxConditions = 1000

/** Maximum values of `after`, each of which is a level of its condition. */
export const maxPageValues = 100

export const operationId = /^[A-Za-z_][A-Za-z0-9_]*$/

const id = Type.String({
  pattern: operationId.source,
  description: 'unique in the batch; names the result, also in references'
})
const table = TableText
const row = Type.Record(Type.String(), Type.Unknown(), {
  title: 'Row',
  description: 'column → value'
})
const setOf = (described: TSchema) =>
  Type.Record(Type.String(), Type.Unknown({ described }), {
    minProperties: 1,
    emptyCode: 'set_empty',
    description: 'column → new value, or a modifier that computes it'
  })
const all = Type.Optional(
  Type.Literal(true, { description: 'affects every row of the table, instead of `where`' })
)
const count = Type.Integer({ minimum: 0 })
/** Update and delete require conditions in `where`, `from`, or `all`. */
const rowsAreNamed = {
  if: { required: ['all'] },
  then: { properties: { where: { maxProperties: 0 } }, not: { required: ['from'] } },
  else: {
    anyOf: [{ required: ['where'] }, { required: ['from'] }],
    properties: { where: { minProperties: 1 } }
  }
}
/** A list of columns: at least one, unless `limits` says otherwise. */
function columnsOf<T extends TSchema> (
  element: T,
  description: string,
  limits: ArrayOptions = { minItems: 1 }
) {
  return Type.Optional(
    Type.Array(element, {
      ...limits,
      maxItems: maxColumns,
      expected: 'an array of columns, for example [<column>]',
      description
    })
  )
}
const columnName = Type.String({ name: 'column' })
const columnPath = Type.String({ name: 'path' })

const output = Type.Union([
  columnPath,
  Type.Object(
    { column: columnPath, cast: Type.Optional(Cast), as: Type.Optional(columnName) },
    { additionalProperties: false, title: 'OutputColumn' }
  )
], { title: 'Output' })
export const aggregateNames = ['count', 'sum', 'avg', 'min', 'max'] as const
const aggregate = Type.Object({
  fn: oneOf(aggregateNames),
  column: Type.Optional(columnPath),
  cast: Type.Optional(Cast),
  distinct: Type.Optional(Type.Literal(true, { description: 'each value counts once' })),
  as: Type.Optional(columnName)
}, {
  additionalProperties: false,
  title: 'Aggregate',
  if: { properties: { fn: { const: 'count' } } },
  else: { required: ['column'] },
  dependentRequired: { distinct: ['column'], cast: ['column'] }
})
const inserted = Type.Object({
  fn: Type.Literal('inserted', { description: 'whether the row is new' }),
  as: Type.Optional(columnName)
}, { additionalProperties: false, title: 'Inserted' })
const direction = oneOf(['asc', 'desc'])
const ordering = Type.Union([
  direction,
  Type.Object(
    { direction: Type.Optional(direction), nulls: Type.Optional(oneOf(['first', 'last'])) },
    { additionalProperties: false, minProperties: 1, title: 'OrderingOptions' }
  )
], { title: 'Ordering' })
const lockMode = oneOf(['update', 'no_key_update', 'share', 'key_share'])
const lockWait = oneOf(['nowait', 'skip_locked'])
const lock = Type.Union([
  lockMode,
  Type.Object({ mode: Type.Optional(lockMode), wait: Type.Optional(lockWait) }, {
    additionalProperties: false,
    title: 'LockOptions',
    expected: 'an object such as {"mode": "update", "wait": "nowait"}'
  })
], {
  title: 'Lock',
  description:
    'locks the rows until the end of the transaction: `"update"`, `"no_key_update"`, `"share"`, ' +
    '`"key_share"`, or `{"mode", "wait": "nowait" | "skip_locked"}`'
})

const returningOf = <T extends TSchema>(element: T) =>
  columnsOf(
    element,
    'columns to return: `"column"`, `"*"` (all) or `{"column", "cast", "as"}`, and beside ' +
      '`on_conflict` `{"fn": "inserted", "as"}`. `[]` returns none; an insert then needs no ' +
      'SELECT privilege',
    {}
  )
const returning = returningOf(output)
const answer = Type.Optional(
  oneOf(['rows', 'count'], {
    title: 'Answer',
    description: 'what the response holds: the rows (default), or with `"count"` their number'
  })
)
const rowCountOf = (title: string, description: string) =>
  Type.Union([
    count,
    Type.Object({ min: Type.Optional(count), max: Type.Optional(count) }, {
      additionalProperties: false,
      minProperties: 1,
      title: 'RowRange'
    })
  ], { title, description })
const expect = Type.Optional(rowCountOf(
  'Expect',
  'how many rows the operation must affect or return: a number or `{"min", "max"}`. Otherwise ' +
    'the batch is rolled back with status 412'
))
const when = Type.Optional(
  Type.Record(
    Type.String(),
    rowCountOf('RowCount', 'how many rows the operation affected or returned'),
    {
      minProperties: 1,
      expected: 'an object of earlier operations and their numbers of rows, for example ' +
        '{"found": 0}',
      description: 'earlier operation → how many rows it must have affected or returned: a ' +
        'number or `{"min", "max"}`. Otherwise this operation is skipped, and its result is `null`'
    }
  )
)

/** The last members of all kinds of operations. */
const common = { expect, answer, when }

export const OnConflict = Type.Object({
  columns: columnsOf(columnName, 'columns of a unique index'),
  constraint: Type.Optional(
    Type.String({ name: 'column', description: 'name of a constraint, instead of `columns`' })
  ),
  do: oneOf(['nothing', 'update']),
  set: Type.Optional(setOf(ConflictNewValue)),
  where: Type.Optional(ConflictFilter),
  index_where: Type.Optional(IndexFilter)
}, {
  additionalProperties: false,
  title: 'OnConflict',
  expected: 'an object, for example {"columns": ["id"], "do": "update"}',
  if: { required: ['constraint'] },
  then: { not: { anyOf: [{ required: ['columns'] }, { required: ['index_where'] }] } },
  else: { required: ['columns'] },
  dependentSchemas: {
    set: { properties: { do: { const: 'update' } } },
    where: { properties: { do: { const: 'update' }, where: { minProperties: 1 } } }
  },
  description:
    'what to do with a row that exists already: `columns` or `constraint`, `do`, and ' +
    '`set`, `where`, `index_where`'
})

const columns = columnsOf(
  Type.Union([aggregate, output]),
  'columns to return: `"column"`, `"*"` (all), `{"column", "cast", "as"}` or ' +
    '`{"fn": "count" | "sum" | "avg" | "min" | "max", "column", "cast", "distinct", "as"}`'
)
const order = Type.Optional(
  Type.Array(
    Type.Record(Type.String(), ordering, {
      keys: 'path',
      minProperties: 1,
      maxProperties: 1,
      expected: 'an object of a column and its direction, for example "order": [<order>]'
    }),
    {
      maxItems: maxColumns,
      expected: 'an array of objects, for example [<order>]',
      description:
        '`[{"column": "asc" | "desc" | {"direction", "nulls": "first" | "last"}}, …]`, by a ' +
        'column or the name of an output column'
    }
  )
)
const limit = Type.Optional(
  Type.Integer({ minimum: 0, description: 'maximum number of rows' })
)
const offset = Type.Optional(
  Type.Integer({ minimum: 0, description: 'number of rows to skip first' })
)

const distinct = Type.Optional(
  Type.Literal(true, { description: 'returns each of several equal rows once' })
)
const groupBy = columnsOf(columnPath, 'columns to group by', {})
const having = Type.Optional(
  {
    ...Filter,
    meaning: 'output column → { operator: operand, … }: the rows to return'
  } as TObject
)

/** What a select returns, and an insert stores. */
const rowsOfTable = {
  table,
  where: Type.Optional(Filter),
  columns,
  distinct,
  group_by: groupBy,
  having,
  order
}

export const InsertSource = Type.Object({
  ...rowsOfTable,
  limit,
  offset
}, {
  additionalProperties: false,
  title: 'InsertSource',
  dependentRequired: { group_by: ['columns'], having: ['columns'], distinct: ['columns'] },
  description: 'the rows to insert, as a select returns them: `{"table", "where", "columns", ' +
    '"distinct", "group_by", "having", "order", "limit", "offset"}`'
})

export const JoinedSource = Type.Object({
  table,
  on: Type.Record(Type.String(), columnPath, {
    keys: 'column',
    minProperties: 1,
    expected: 'an object of columns, for example {"sku": "sku"}',
    description: 'column of the table → column, path or alias of `from`, all equal'
  }),
  where: Type.Optional(Filter),
  columns,
  group_by: groupBy,
  having
}, {
  additionalProperties: false,
  title: 'JoinedSource',
  dependentRequired: { group_by: ['columns'], having: ['columns'] },
  description: 'rows of another table: only rows that match one of them are affected. `{"table", ' +
    '"on", "where", "columns", "group_by", "having"}`'
})

const rowsOfParameter = {
  param: Type.String({ description: 'a parameter that is a list of objects' }),
  columns,
  group_by: groupBy
}

export const InsertedParameter = Type.Object(rowsOfParameter, {
  additionalProperties: false,
  title: 'InsertedParameter',
  description: 'rows of a parameter: `{"param", "columns", "group_by"}`'
})

export const JoinedParameter = Type.Object({
  ...rowsOfParameter,
  on: JoinedSource.properties.on
}, {
  additionalProperties: false,
  title: 'JoinedParameter',
  description: 'rows of a parameter: `{"param", "on", "columns", "group_by"}`'
})

/** `inserted` requires `on_conflict`. */
const insertedIsKnown = {
  if: { required: ['on_conflict'] },
  else: { properties: { returning: { items: { not: { type: 'object', required: ['fn'] } } } } }
}

export const Insert = Type.Object({
  id,
  op: Type.Literal('insert'),
  table,
  values: Type.Optional(
    Type.Array(row, {
      minItems: 1,
      description: 'rows to insert; missing columns take their defaults, `null` is NULL'
    })
  ),
  from: Type.Optional(InsertSource),
  columns: Type.Optional(
    Type.Record(Type.String(), Type.Unknown({ described: NewColumn }), {
      minProperties: 1,
      description: 'column → value of each row of `from`: JSON, reference or `{"$col": column}`'
    })
  ),
  on_conflict: Type.Optional(OnConflict),
  returning: returningOf(Type.Union([inserted, output])),
  ...common
}, {
  title: 'Insert',
  if: { required: ['from'] },
  then: { required: ['columns'], not: { required: ['values'] }, ...insertedIsKnown },
  else: { required: ['values'], ...insertedIsKnown },
  description: 'Inserts rows and returns them as stored.'
})

const keyColumn = Type.Union([
  columnName,
  Type.Object({ column: columnName, as: columnName }, {
    additionalProperties: false,
    title: 'KeyAlias'
  })
], { title: 'KeyColumn' })

export const Update = Type.Object({
  id,
  op: Type.Literal('update'),
  table,
  set: Type.Optional(setOf(NewValue)),
  key: columnsOf(
    keyColumn,
    'columns by which the rows of `values` find the rows to change: `"column"`, or ' +
      '`{"column", "as"}` if the rows name it differently'
  ),
  values: Type.Optional(
    Type.Array(
      Type.Record(Type.String(), Type.Unknown({ described: NewValue }), {
        title: 'KeyedRow',
        description: 'the columns of `key`, and column → new value or a modifier that computes it'
      }),
      { minItems: 1, description: 'with `key`: rows of new values, each with its key' }
    )
  ),
  from: Type.Optional(JoinedSource),
  where: Type.Optional(ChangingFilter),
  all,
  returning,
  ...common
}, {
  title: 'Update',
  if: { required: ['key'] },
  then: {
    required: ['values'],
    not: { anyOf: [{ required: ['set'] }, { required: ['from'] }, { required: ['all'] }] },
    properties: { where: { minProperties: 1 } }
  },
  else: { required: ['set'], ...rowsAreNamed },
  description: 'Changes the rows that match `where`, or have a `key` of `values`, and returns ' +
    'them as changed.'
})

export const Delete = Type.Object({
  id,
  op: Type.Literal('delete'),
  table,
  from: Type.Optional(JoinedSource),
  where: Type.Optional(ChangingFilter),
  all,
  returning,
  ...common
}, {
  title: 'Delete',
  ...rowsAreNamed,
  description: 'Deletes the rows that match `where` and returns them as they were.'
})

export const maxNestedReads = 5

/**
 * Maximum reads in `with` of a select, of all levels together. PostgreSQL plans them as one join,
 * in memory that grows faster than their number (measured: 100 took 60 MB, 1000 took 2.4 GB).
 */
export const maxAllNestedReads = 100

export const NestedRead = Type.Recursive(This =>
  Type.Object({
    table,
    on: On,
    one: Type.Optional(
      Type.Literal(true, { description: 'the member is the row or null, instead of an array' })
    ),
    columns: columnsOf(
      output,
      'columns to return: `"column"`, `"*"` (all) or `{"column", "cast", "as"}`'
    ),
    where: Type.Optional(Filter),
    order,
    limit,
    offset,
    with: Type.Optional(
      Type.Record(Type.String(), This, {
        keys: 'column',
        minProperties: 1,
        description: `member → rows of another table; at most ${maxNestedReads} levels`
      })
    )
  }, {
    additionalProperties: false,
    title: 'NestedRead',
    description: 'rows of another table that belong to a row'
  })
)

export const Select = Type.Object({
  id,
  op: Type.Literal('select'),
  ...rowsOfTable,
  after: Type.Optional(
    Type.Array(PageValue, {
      minItems: 1,
      maxItems: maxPageValues,
      expected: 'a non-empty array of values, one for each element of "order"',
      description: 'returns the rows that follow these values of `order`: one scalar, reference ' +
        'or null for each of its elements'
    })
  ),
  limit,
  offset,
  lock: Type.Optional(lock),
  with: Type.Optional(
    Type.Record(Type.String(), NestedRead, {
      keys: 'column',
      minProperties: 1,
      description: 'member → rows of another table that belong to the row: `{"table", "on", ' +
        '"one", "columns", "where", "order", "limit", "offset", "with"}`'
    })
  ),
  ...common
}, {
  title: 'Select',
  dependentRequired: { group_by: ['columns'], having: ['columns'], after: ['order'] },
  description: 'Returns the rows that match `where`, or all rows without it.'
})

export const Call = Type.Object({
  id,
  op: Type.Literal('call'),
  function: FunctionText,
  args: Type.Optional(Type.Record(Type.String(), Type.Unknown({ reference: 'any' }), {
    keys: 'column',
    expected: 'an object with the names of the parameters, for example {"id": 1}',
    description: 'parameter → value; parameters that are missing take their defaults'
  })),
  where: Type.Optional(Filter),
  columns,
  order,
  limit,
  offset,
  ...common
}, {
  title: 'Call',
  description: 'Calls a function and returns its rows, as `select * from f(…)` does.'
})

export const operations = {
  insert: Insert,
  update: Update,
  delete: Delete,
  select: Select,
  call: Call
} as const satisfies Record<string, TObject>

export type OperationKind = keyof typeof operations

export type Output = Static<typeof output>
export type Aggregate = Static<typeof aggregate>
export type Inserted = Static<typeof inserted>
export type Ordering = Static<typeof ordering>
export type Lock = Static<typeof lock>
export type LockMode = Static<typeof lockMode>
export type LockWait = Static<typeof lockWait>
export type Expect = Static<typeof expect>
export type When = Static<typeof when>

/**
 * Members of other kinds that an operation ignores. It refuses all other members of other kinds.
 */
export const ignoredMembers: ReadonlySet<string> = new Set(['values', 'set', 'where'])

const kinds = new Map<string, OperationKind[]>()
for (const [kind, { properties }] of Object.entries(operations)) {
  for (const name of Object.keys(properties)) {
    kinds.set(name, [...kinds.get(name) ?? [], kind as OperationKind])
  }
}

/** The kinds of operation that have a member: `limit` → [`select`, `call`]. */
export const memberKinds: ReadonlyMap<string, readonly OperationKind[]> = kinds
