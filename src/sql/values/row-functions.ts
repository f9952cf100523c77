/**
 * Finds the functions that `t."name"` can call, in addition to the columns of `t`: those that need
 * one argument and take the row. Aggregates are not among them; see column.ts. The schema of a
 * function does not matter, so this may find one that the search_path of a role hides.
 */
import { sql, type Fragment } from '../../fragment/fragment.ts'
import { FIRST_USER_OID, isVolatile } from './runnable-code.ts'

/**
 * Pseudo-types of which a row can be a value: record, "any", anyelement, anynonarray, anycompatible
 * and anycompatiblenonarray (pg_type.dat).
 */
const ANY_ROW = sql`'{2249, 2276, 2283, 2776, 5077, 5079}'::pg_catalog.oid[]`

const needsOneArgument = sql`(f.prokind operator(pg_catalog.=) 'f'
  and f.pronargs operator(pg_catalog.-) f.pronargdefaults operator(pg_catalog.<=) 1)`

/** The type of the first argument; for VARIADIC, that of an element of the array. */
const firstType = sql`case
  when f.pronargs operator(pg_catalog.=) 1
    and f.provariadic operator(pg_catalog.<>) 0::pg_catalog.oid then f.provariadic
  else f.proargtypes[0] end`

/** The functions that may take a row of every table, also as a domain. They are read once. */
const functionsOfAnyRow = sql`array(select f.oid from pg_catalog.pg_proc as f
  where ${needsOneArgument} and (${firstType} operator(pg_catalog.=) any (${ANY_ROW})
    or (f.oid operator(pg_catalog.>=) ${FIRST_USER_OID} and exists (
      select from pg_catalog.pg_type as y where y.oid operator(pg_catalog.=) ${firstType}
        and y.typtype operator(pg_catalog.=) 'd'))))`

/**
 * Builds an expression for the relation `c`: a JSON object with the names of the functions that
 * take its row, each with whether it is code. A default of another parameter counts as code. A row
 * is also one of each table from which its table inherits, and of the type of its table (`of`).
 * Types to which a row can be cast count, too.
 */
export const functionsOfRow: Fragment = sql`(
  with recursive a (oid) as (
    select c.oid
    union
    select i.inhparent from a join pg_catalog.pg_inherits as i
      on i.inhrelid operator(pg_catalog.=) a.oid
  ), r (oid) as (
    select o.reltype from a join pg_catalog.pg_class as o on o.oid operator(pg_catalog.=) a.oid
    union
    select c.reloftype
    union
    select k.casttarget from pg_catalog.pg_cast as k
      where k.castsource operator(pg_catalog.=) c.reltype
  )
  select coalesce(pg_catalog.json_object_agg(n.proname, n.code order by n.proname), '{}') from (
    select f.proname, pg_catalog.bool_or(${isVolatile}
        or f.pronargdefaults operator(pg_catalog.>) 0) as code
      from (
        select pg_catalog.unnest(${functionsOfAnyRow})
        union all
        select f.oid from pg_catalog.pg_proc as f
          where f.oid operator(pg_catalog.>=) ${FIRST_USER_OID} and ${needsOneArgument}
            and ${firstType} operator(pg_catalog.=) any (array(select r.oid from r))
      ) as o (oid) join pg_catalog.pg_proc as f on f.oid operator(pg_catalog.=) o.oid
      group by f.proname) as n)`
