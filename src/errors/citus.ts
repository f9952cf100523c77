/**
 * Translates errors of Citus. Those of workers become errors as PostgreSQL would report them, and
 * refusals get a message that says what to do.
 */
import type { DatabaseError } from './database-error.ts'
import { SqlState } from './sqlstates.ts'

/** Returns the error with the names and the message that the client gets. */
export function fromCitus (error: DatabaseError): DatabaseError {
  const found = refusing.has(error.code)
    ? refusals.find(([pattern, , , detail]) =>
      pattern.test(error.message) && (detail === undefined || detail.test(error.detail ?? ''))
    )
    : undefined
  if (found === undefined) return withoutShards(error)
  const [, message, code = SqlState.feature_not_supported] = found
  return { ...error, code, message }
}

const refusing: ReadonlySet<string> = new Set([
  SqlState.feature_not_supported,
  SqlState.internal_error,
  SqlState.undefined_object,
  SqlState.undefined_function,
  SqlState.undefined_table,
  SqlState.null_value_not_allowed
])

const JOINED = 'Citus reads rows of several tables only where all are distributed by the same ' +
  'column and compared in it. Compare that column in "on", or with one value in "where". A table ' +
  'without it must be a reference table.'

const VIEW = 'Citus does not change the rows of a view. Change those of its table, and add the ' +
  'conditions of the view.'

const COMPUTED = 'Citus does not compute a column by a function of the row. Leave it out, and ' +
  'compute it from other columns.'

/** The beginning of a message of Citus, what is said instead, its code, and the detail it has. */
const refusals: ReadonlyArray<
  readonly [message: RegExp, instead: string, code?: string | undefined, detail?: RegExp]
> = [
  // The service writes such a subquery only to name columns of a row.
  [
    /^cannot push down this subquery/,
    COMPUTED,
    undefined,
    /^Subqueries without a FROM clause can only contain immutable/
  ],
  [
    /^(?:complex joins are only|cannot push down this subquery|correlated subqueries are)/,
    JOINED
  ],
  [/^Distributed queries with outer joins/, JOINED],
  [
    /^(?:router planner does not support queries that|found no worker with all shard placements)/,
    'Citus changes rows by those of another table only where both are distributed by the same ' +
    'column and compared in it. Read the other rows first, and use their values.'
  ],
  [
    /^direct joins between distributed and local tables/,
    'Citus does not join distributed tables with local ones. Make the local table a reference ' +
    'table.'
  ],
  [
    /^relation \S+ is not distributed$/,
    'Citus does not change a local table by rows of a reference table. Read them first, and use ' +
    'their values.'
  ],
  [
    /^only reference tables may be queried when targeting a reference table/,
    'Citus changes a reference table only by rows of reference tables. Read the others ' +
    'first, and use their values.'
  ],
  [/^cannot modify views when the query contains citus tables/, VIEW],
  // An insert into a view with `on_conflict`.
  [/^missing FROM-clause entry for table "excluded_\d+"/, VIEW],
  [
    /^cannot modify table "[^"]*" because there was a parallel operation/,
    'Citus does not change a reference table after the batch has read several shards. Move the ' +
    'change in front of the read, or send it by itself.'
  ],
  [
    /^could not run distributed query with FOR UPDATE/,
    'Citus locks rows of one shard only. Compare the distribution column with one value in ' +
    '"where".'
  ],
  [
    /^modifying the partition value of rows is not allowed/,
    'Citus does not change the distribution column of a row. Delete the row, and insert another.'
  ],
  [
    /^(?:STABLE functions used in|functions used in the|non-IMMUTABLE functions are not)/,
    'Citus takes here only values that depend on nothing else, such as the time zone or an ' +
    'earlier operation. Read the value first, and send it as a plain one.'
  ],
  [
    /^function \S{1,200}_\d{6,18}\) does not exist/,
    COMPUTED
  ],
  [
    /^(?:the partition column of table|cannot perform an INSERT without a partition column)/,
    'Citus needs a value in the distribution column of each row.',
    SqlState.not_null_violation
  ],
  [
    /^cannot execute a distributed query from a query on a shard/,
    'Citus does not read a distributed table in a function, trigger or policy that runs on a ' +
    'worker. Read it in an operation of its own.'
  ],
  [
    // A change that is one statement with its result, whose conditions no shard can meet.
    /^could not find valid entry for shard 0$/,
    'Citus does not run a change whose conditions contradict each other. Leave it out.'
  ]
]

/** The first id that Citus gives a shard. */
const FIRST_SHARD = 102_008

/** Violations whose message names only the constraint, or the table and then the constraint. */
const namesConstraint: ReadonlySet<string> = new Set([
  SqlState.unique_violation,
  SqlState.foreign_key_violation,
  SqlState.check_violation,
  SqlState.exclusion_violation
])

/**
 * Citus passes on the message of a worker, in which tables and constraints have the id of a shard
 * at their end, and leaves out the fields of the error.
 */
function withoutShards (error: DatabaseError): DatabaseError {
  if (error.routine !== 'ReportResultError') return error
  const remove = (text: string): string =>
    text.replaceAll(/_(\d{6,18})(?="|$)/g, (all, id) => Number(id) < FIRST_SHARD ? all : '')
  const message = remove(error.message)
  const [first, second] = message.matchAll(/"([^"]*)"/g)
  const constraint = (second ?? first)?.[1]
  return {
    ...error,
    message,
    ...(error.detail === undefined ? {} : { detail: remove(error.detail) }),
    ...(namesConstraint.has(error.code) && constraint !== undefined
      ? { constraint_name: constraint }
      : {})
  }
}
