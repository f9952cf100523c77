/**
 * The grammar of `where`: column → { operator: operand, … }. All conditions must hold; `and`,
 * `or` and `not` combine filters, `exists` and `not_exists` look into another table.
 *
 * Schemas have these keywords in addition to TypeBox's own:
 * - `issueCode`: the code of a value that does not match, also for what is inside;
 *   `emptyCode`: of too few items or members; `unknownCode`: of an unknown member
 * - `exact`: an object with a missing or additional member is wrong as a whole
 * - `nested`: members in which a filter is one level deeper
 * - `reference`: which references a string may be
 * - `name` (of a string) and `keys` (of an object): the text names a column (`column`), a column
 *   where a path is refused (`plain`), or a column or path (`path`)
 * - `expected`: what the value must be, for messages. In it, `<name>` is the name of the member,
 *   and `<scalar>`, `<column>` and `<order>` are examples that suit the value that was sent
 *
 * Only the OpenAPI description uses `title` (a schema is described once under it), `meaning` (the
 * description of a titled schema where it is used), `described` (a more detailed schema), and JSON
 * Schema's `not`, `if`, `then`, `else`, `dependentRequired` and `dependentSchemas`, for what the
 * code checks elsewhere.
 */
import { Type, type TObject, type TSchema } from '@sinclair/typebox'
import type { IssueCode } from './error.ts'
import {
  ColumnOperand,
  ExcludedOperand,
  Keyword,
  operands,
  scalarOf,
  SourceOperand,
  type OperandKind
} from './operand.ts'
import { operators, type Operator } from './operator.ts'

export const TableText = Type.String({
  description:
    '`<table>` (in the first schema of `DB_SCHEMAS`) or `<schema>.<table>`; may be a view'
})

export const FunctionText = Type.String({
  description: '`<function>` (in the first schema of `DB_SCHEMAS`) or `<schema>.<function>`'
})

export const On = Type.Record(Type.String(), Type.String({ name: 'column' }), {
  keys: 'column',
  minProperties: 1,
  description: 'column of the other table → column of this one, all equal',
  expected: 'an object of columns, for example {"order_id": "id"}'
})

/** Maximum nesting of combinators, including `not` of a column. */
export const maxFilterDepth = 10

type OperandSchemas = ReadonlyArray<readonly [operator: string, operand: TSchema]>

const allOperators: ReadonlyArray<readonly [string, Operator]> = Object.entries(operators)

/** What each operator takes. `columns` is the schema of operands that name a column. */
function operandsWith (columns: TSchema): OperandSchemas {
  return allOperators.map(([name, { takes, meaning }]) => {
    const { schema, description } = operands[takes]
    const operand = schema(columns)
    const text = JSON.stringify(operand)
    const prefix = text.includes('$excluded') ? 'Conflict' : text.includes('$from') ? 'Joined' : ''
    return [name, {
      ...operand,
      title: `${prefix}${capitalize(takes)}Operand`,
      description,
      expected: description.replaceAll('`', ''),
      meaning
    }]
  })
}

/** Starts a word with a capital letter. */
export function capitalize (word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}

const constant = scalarOf('none', 'Constant')
const constants: Partial<Record<OperandKind, TSchema>> = {
  comparand: constant,
  list: Type.Array(constant, { minItems: 1 }),
  keyword: Keyword
}
const constantOperands: OperandSchemas = allOperators
  .filter(([, { constant }]) => constant === true)
  .map(([name, { takes, meaning }]) => [name, { ...constants[takes] as TSchema, meaning }])

interface FilterOptions {
  /** The issue code of an empty filter. */
  readonly emptyCode: IssueCode
  readonly keys: 'plain' | 'path'
  readonly title: string
  /** Whether conditions on other tables are allowed; true by default. */
  readonly otherTables?: boolean
}

/**
 * Creates the schema of a filter. Filters inside `and`, `or` and `not` must not be empty; `where`
 * of `exists` takes the same filter again.
 */
function filterOf (operands: OperandSchemas, options: FilterOptions): TObject {
  const { emptyCode, keys, title, otherTables = true } = options
  const common = {
    additionalProperties: conditionsOf(operands, options),
    keys,
    nested: ['and', 'or', 'not', ...otherTables ? ['exists', 'not_exists'] : []],
    description: 'column → { operator: operand, … }; `and`, `or` and `not` combine filters' +
      (otherTables ? '; `exists` and `not_exists` look into another table' : ''),
    expected: 'an object of conditions, for example {"sku": {"eq": "apple"}}'
  }
  return Type.Recursive(This => {
    const membersOf = (filter: TSchema) => ({
      ...combinatorsOf(filter, emptyCode),
      ...otherTables && existenceOf(This, title)
    })
    const inner = Type.Recursive(Inner =>
      Type.Object(membersOf(Inner), {
        ...common,
        minProperties: 1,
        emptyCode,
        issueCode: 'operand_invalid',
        title: `Nested${title}`
      })
    )
    return Type.Object(membersOf(inner), { ...common, title })
  }) as TSchema as TObject
}

/** `filter` is the schema of `where`. */
function existenceOf (filter: TSchema, title: string) {
  const exists = Type.Object({ table: TableText, on: On, where: Type.Optional(filter) }, {
    additionalProperties: false,
    issueCode: 'operand_invalid',
    title: `${title}Exists`,
    description: 'rows of another table; `on`: column of that table → column of this one'
  })
  return {
    exists: Type.Optional({
      ...exists,
      meaning: 'at least one row of another table must match'
    }),
    not_exists: Type.Optional({ ...exists, meaning: 'no row of another table may match' })
  }
}

function conditionsOf (operands: OperandSchemas, { emptyCode, title }: FilterOptions): TSchema {
  return Type.Recursive(This =>
    Type.Object(
      {
        ...Object.fromEntries(operands.map(([name, schema]) => [name, Type.Optional(schema)])),
        not: Type.Optional(This)
      },
      {
        additionalProperties: false,
        minProperties: 1,
        unknownCode: 'operator_unknown',
        emptyCode,
        issueCode: 'operand_invalid',
        nested: ['not'],
        title: `${title}Tests`,
        description: 'operator → operand; all conditions must hold',
        expected: 'an object of operators, for example {<name>: {"eq": <scalar>}}'
      }
    )
  )
}

function combinatorsOf (inner: TSchema, emptyCode: IssueCode) {
  const list = { minItems: 1, emptyCode, issueCode: 'operand_invalid' }
  return {
    and: Type.Optional(
      Type.Array(inner, { ...list, description: 'filters that must all hold' })
    ),
    or: Type.Optional(
      Type.Array(inner, { ...list, description: 'filters of which at least one must hold' })
    ),
    not: Type.Optional({ ...inner, meaning: 'a filter that must not hold' })
  }
}

export const Filter = filterOf(operandsWith(ColumnOperand), {
  emptyCode: 'operand_invalid',
  keys: 'path',
  title: 'Filter'
})
/**
 * `where` of update and delete, where an operand can also be a column of `from`. Its empty parts
 * have the code `where_empty`, because a filter that matches every row by accident is dangerous
 * here.
 */
export const ChangingFilter = filterOf(operandsWith(Type.Union([ColumnOperand, SourceOperand])), {
  emptyCode: 'where_empty',
  keys: 'path',
  title: 'ChangingFilter'
})
/** `on_conflict.where`, where an operand can also be a column of the row proposed for insertion. */
export const ConflictFilter = filterOf(operandsWith(Type.Union([ColumnOperand, ExcludedOperand])), {
  emptyCode: 'where_empty',
  keys: 'path',
  title: 'ConflictFilter'
})
/**
 * `on_conflict.index_where`. It becomes part of the text of the statement: PostgreSQL allows no
 * parameters there.
 */
export const IndexFilter = filterOf(constantOperands, {
  emptyCode: 'operand_invalid',
  keys: 'plain',
  title: 'IndexFilter',
  otherTables: false
})
