/**
 * Builds the call of a function as a source of rows.
 */
import { LRUCache } from 'lru-cache'
import {
  constant,
  empty,
  identifier,
  join,
  parameter,
  render,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type {
  Argument,
  CallNode,
  JsonDocument,
  UncertainColumn,
  TableName
} from '../../plan/nodes.ts'
import { raise, raiseText, type ValueFault } from '../statement/raised-error.ts'
import { tableName, namesAsRows } from '../statement/table.ts'
import { convertChecked } from './typed-json.ts'

/** What arguments need from the builder of a statement. */
export interface ArgumentBuilder {
  readonly findFunction: FindFunction | undefined
  /** See CompileOptions. */
  readonly checkValues: boolean
  /** Builds a document as json, in which PostgreSQL replaces the references with their values. */
  buildDocument(document: JsonDocument): Fragment
  /** Returns the conditions that check columns of the row `x`. */
  checkStoredRows(columns: readonly UncertainColumn[]): readonly Fragment[]
}

/** The type of a function that returns nothing (pg_type.dat). */
const VOID = sql`2278`

/**
 * Builds a query whose rows are those of `select * from f(…)`, and none for a function that
 * returns nothing. The alias is the name of the function, because PostgreSQL names the column of a
 * scalar after it.
 */
export function buildCall (node: CallNode, values: ArgumentBuilder): Fragment {
  const { table } = node
  const name = identifier(table.name)
  const variants = values.findFunction?.(table)
  const find = variants === undefined ? () => [] : findParameters(variants, node)
  const built = node.args.map(argument => buildArgument(node, argument, { values, find }))
  const list = built.toSorted((a, b) => Number(a.variadic) - Number(b.variadic))
    .map(({ argument }) => argument)
  const conditions = [
    sql`pg_catalog.pg_typeof(${name})::pg_catalog.oid operator(pg_catalog.<>) ${VOID}`,
    ...built.flatMap(({ refusal }) => refusal === undefined ? [] : [sql`${refusal} is null`]),
    ...variants === undefined ? [] : [isCurrent(node, variants)]
  ]
  return sql`(select ${name}.* from ${tableName(table)}(${join(list, sql`, `)}) as ${name}
    where ${join(conditions, sql` and `)})`
}

/** A row of NULLs of the types that the function returns. It is not called for that. */
export function nullRowOfCall (node: CallNode, values: ArgumentBuilder): Fragment {
  return sql`(select n.* from (select) as one left join ${buildCall(node, values)} as n on false)`
}

/**
 * A condition that is true, or raises `function`: the types are outdated. The
 * version belongs to the text: what was prepared before calls the function of another version.
 */
function isCurrent ({ table }: CallNode, { version }: FunctionVariants): Fragment {
  const current = versionOf(constant(table.schema), constant(table.name))
  return sql`case when ${current} operator(pg_catalog.=) ${constant(version)} then true
    else ${raise('function')} is null end`
}

interface ArgumentContext {
  readonly values: ArgumentBuilder
  /** Finds the parameters that can take an argument; none if their types are not known. */
  readonly find: ReturnType<typeof findParameters>
}

interface BuiltArgument {
  readonly argument: Fragment
  /** PostgreSQL requires it to be the last one. */
  readonly variadic: boolean
  /** An expression that fails: the value cannot be converted. */
  readonly refusal?: Fragment
}

/**
 * Builds an argument. PostgreSQL converts a literal to the type of the parameter, and chooses the
 * function by it. JSON and references are converted to the type in the catalogue. If there are
 * several, PostgreSQL decides about JSON as about a literal, and references are refused.
 */
function buildArgument (
  node: CallNode,
  [name, value]: readonly [name: string, value: Argument],
  { values, find }: ArgumentContext
): BuiltArgument {
  const found = find(name)
  const variadic = found.some(parameter => parameter.variadic)
  const write = (value: Fragment): Fragment =>
    sql`${variadic ? sql`variadic ` : empty}${identifier(name)} => ${value}`
  const types = new Set(found.map(({ type = empty }) => render(type).text))
  const type = found[0]?.type
  if (value.kind !== 'document') {
    const constant = value.kind === 'null' ? sql`null` : parameter(value.text)
    const known = types.size === 1 ? type : undefined
    return { argument: write(buildConstant(node, constant, known)), variadic }
  }
  if (types.size === 1 && type !== undefined) {
    const { shape } = value
    const json = values.buildDocument(value)
    const converted = convertChecked(json, type, { values, shape, label: name })
    return { argument: write(converted), variadic }
  }
  if (value.references.length === 0) {
    return { argument: write(parameter(value.pieces[0] as string)), variadic }
  }
  const fault: ValueFault = { problem: 'type', path: ['', name] }
  return {
    argument: write(sql`null::${type ?? sql`pg_catalog.text`}`),
    variadic,
    refusal: raiseText('value', parameter(JSON.stringify(fault)))
  }
}

/**
 * PostgreSQL runs an IMMUTABLE function with constant arguments while it plans the statement, and
 * does not know yet that the call is skipped. For the planner, a subquery is not a constant.
 * Without `type`, the value must stay a literal, by which PostgreSQL chooses the function.
 */
function buildConstant (
  { when }: CallNode,
  constant: Fragment,
  type: Fragment | undefined
): Fragment {
  return when.length === 0 || type === undefined ? constant : sql`(select ${constant}::${type})`
}

// What the service knows about the parameters of functions: PostgreSQL converts a literal to the
// type of its parameter, but JSON and the values of other operations must be converted to a type
// that the statement names. It is read from the catalogue before the first call and kept per
// process. A call checks that it is not outdated, so its statement can be prepared.

/** A parameter of a function. */
export interface Parameter {
  readonly name: string
  /** Its type as SQL. Undefined: PostgreSQL decides by the value (anyelement). */
  readonly type: Fragment | undefined
  /** Whether it takes the values of VARIADIC as one array. */
  readonly variadic: boolean
}

/** A function, or one of several with the same name. */
interface Variant {
  /** The parameters that take a value. The last `defaults` of them may be missing. */
  readonly parameters: readonly Parameter[]
  readonly defaults: number
}

/** All functions of one name. */
interface FunctionVariants {
  readonly variants: readonly Variant[]
  /** Changes when one of them is created, replaced or dropped. */
  readonly version: string
}

/** Finds what is known about the functions of a name. */
export type FindFunction = (name: TableName) => FunctionVariants | undefined

/** Builds a query that returns these functions as JSON, for `remember`. */
export function functionTypesQuery (functions: readonly TableName[]): Fragment {
  return sql`select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'schema', q.schema, 'name', q.name, 'version', ${versionOf(sql`q.schema`, sql`q.name`)},
        'variants', (
          select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(p.pronargdefaults, (
            select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(
                coalesce(p.proargnames[a.position], ''), s.nspname, y.typname, y.typtype,
                coalesce(p.proargmodes[a.position], 'i')) order by a.position), '[]')
              from unnest(coalesce(p.proallargtypes, p.proargtypes::pg_catalog.oid[]))
                with ordinality as a (type, position)
              join pg_catalog.pg_type as y on y.oid operator(pg_catalog.=) a.type
              join pg_catalog.pg_namespace as s on s.oid operator(pg_catalog.=) y.typnamespace
              where coalesce(p.proargmodes[a.position], 'i') in ('i', 'b', 'v')))), '[]')
            from pg_catalog.pg_proc as p
            join pg_catalog.pg_namespace as n on n.oid operator(pg_catalog.=) p.pronamespace
            where n.nspname operator(pg_catalog.=) q.schema
              and p.proname operator(pg_catalog.=) q.name))), '[]')
      from ${namesAsRows(functions)}`
}

/** A text that changes when a function of this name is created, replaced or dropped. */
function versionOf (schema: Fragment, name: Fragment): Fragment {
  return sql`(select coalesce(pg_catalog.string_agg(
      pg_catalog.concat(p.oid, ' ', p.xmin, ' ', p.ctid), ',' order by p.oid), '')
    from pg_catalog.pg_proc as p
    join pg_catalog.pg_namespace as n on n.oid operator(pg_catalog.=) p.pronamespace
    where n.nspname operator(pg_catalog.=) ${schema} and p.proname operator(pg_catalog.=) ${name})`
}

interface FunctionRow extends TableName {
  readonly version: string
  readonly variants: ReadonlyArray<
    readonly [defaults: number, parameters: readonly ParameterRow[]]
  >
}

type ParameterRow = readonly [
  name: string,
  schema: string,
  type: string,
  kind: string,
  mode: string
]

/** More than a thousand functions with ten parameters. */
const MAX_BYTES = 8 * 1024 * 1024
/** A name, a variant and a parameter. */
const NAME_BYTES = 500
const VARIANT_BYTES = 200
const PARAMETER_BYTES = 300

export class FunctionTypes {
  readonly #functions = new LRUCache<string, FunctionVariants>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ variants, version }) =>
      variants.reduce(
        (sum, { parameters }) => sum + VARIANT_BYTES + PARAMETER_BYTES * parameters.length,
        NAME_BYTES + 2 * version.length
      )
  })

  /** Keeps the result of functionTypesQuery, except for names without a function. */
  remember (json: string): void {
    for (const { schema, name, version, variants } of JSON.parse(json) as readonly FunctionRow[]) {
      if (variants.length === 0) continue
      this.#functions.set(keyOf({ schema, name }), {
        version,
        variants: variants.map(([defaults, parameters]) => ({
          defaults,
          parameters: parameters.map(readParameter)
        }))
      })
    }
  }

  forget (name: TableName): void {
    this.#functions.delete(keyOf(name))
  }

  lookup (name: TableName): FunctionVariants | undefined {
    return this.#functions.get(keyOf(name))
  }
}

/** A name can contain a dot, but no U+0000. */
function keyOf ({ schema, name }: TableName): string {
  return `${schema}\0${name}`
}

function readParameter ([name, schema, type, kind, mode]: ParameterRow): Parameter {
  return {
    name,
    type: kind === 'p' ? undefined : sql`${identifier(schema)}.${identifier(type)}`,
    variadic: mode === 'v'
  }
}

/** Returns the parameters that can take each argument, one of each function that fits the call. */
function findParameters (
  { variants }: FunctionVariants,
  { args }: CallNode
): (argument: string) => readonly Parameter[] {
  const given = new Set(args.map(([name]) => name))
  const fitting = variants
    .map(({ parameters, defaults }) => ({
      byName: new Map(parameters.map(parameter => [parameter.name, parameter])),
      required: parameters.slice(0, parameters.length - defaults)
    }))
    .filter(({ byName, required }) =>
      [...given].every(name => byName.has(name)) && required.every(({ name }) => given.has(name))
    )
  return argument => fitting.map(({ byName }) => byName.get(argument) as Parameter)
}
