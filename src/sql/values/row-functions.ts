/**
 * Finds the functions that `t."name"` can call, in addition to the columns of `t`: those that need
 * one argument and take the row. Aggregates are not among them; see column.ts. The schema of a
 * function does not matter, so this may find one that the search_path of a role hides.
 */
import { sql, type Fragment } from '../../fragment/fragment.ts'

/** The OIDs of pg_proc and pg_type, as pg_depend has them (pg_class.dat). */
const FUNCTION = sql`1255::pg_catalog.oid`
const TYPE = sql`1247::pg_catalog.oid`

/**
 * Pseudo-types of which a row can be a value: record, "any", anyelement, anynonarray, anycompatible
 * and anycompatiblenonarray (pg_type.dat).
 */
const ANY_ROW = sql`2249, 2276, 2283, 2776, 5077, 5079`

const needsOneArgument = sql`(f.prokind operator(pg_catalog.=) 'f'
  and f.pronargs operator(pg_catalog.-) f.pronargdefaults operator(pg_catalog.<=) 1)`

/** The type of the first argument; for VARIADIC, that of an element of the array. */
const firstType = sql`case
  when f.pronargs operator(pg_catalog.=) 1
    and f.provariadic operator(pg_catalog.<>) 0::pg_catalog.oid then f.provariadic
  else f.proargtypes[0] end`

/** The names of the functions that take a row of every table. PostgreSQL reads them once. */
const functionsOfAnyRow = sql`array(
  select distinct f.proname::pg_catalog.text from pg_catalog.pg_proc as f
    where ${needsOneArgument} and (${firstType} in (${ANY_ROW})
      or (f.oid operator(pg_catalog.>=) 16384 and exists (select from pg_catalog.pg_type as y
        where y.oid operator(pg_catalog.=) ${firstType}
          and y.typtype operator(pg_catalog.=) 'd')))
    order by 1)`

/**
 * Builds an expression for the relation `c`: the names of the functions that take its row, as an
 * array of texts. A row is also one of each table from which its table inherits, and of the type of
 * its table (`of`). Types to which a row can be cast count, too.
 */
export const functionsOfRow: Fragment = sql`pg_catalog.array_cat(${functionsOfAnyRow}, array(
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
  select distinct f.proname::pg_catalog.text from r
    join pg_catalog.pg_depend as d on d.refclassid operator(pg_catalog.=) ${TYPE}
      and d.refobjid operator(pg_catalog.=) r.oid and d.classid operator(pg_catalog.=) ${FUNCTION}
    join pg_catalog.pg_proc as f on f.oid operator(pg_catalog.=) d.objid
    where ${needsOneArgument} and ${firstType} operator(pg_catalog.=) r.oid
    order by 1))`
