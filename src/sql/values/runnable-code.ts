/**
 * Finds which operations can run code of the database: functions in SQL or a procedural language
 * that are VOLATILE. Such code may change settings of the session, for example its time zone. In
 * functions that are STABLE or IMMUTABLE, PostgreSQL refuses SET, so they do not count, nor do
 * functions in C. Built-in functions that change the session or run a text as SQL count where the
 * schema calls them.
 *
 * The query follows the catalogue from a table or a function to the objects that an operation on it
 * can use, and from these to others: mostly by pg_depend, which lists what an expression names. It
 * follows more than PostgreSQL executes, so it may find code that never runs. For example, a write
 * to a view counts as a write to each table of the view, and the policies of a table count even if
 * row level security is off.
 *
 * Not found:
 * - calls inside of a function body that is a string, if the function is declared STABLE or
 *   IMMUTABLE, and everything that functions in C do;
 * - tables that a built-in function reads by name, such as table_to_xml;
 * - the types of results of computed columns that are not VOLATILE themselves.
 */
import { fixed, sql, type Fragment } from '../../fragment/fragment.ts'

/** The OIDs of catalogues, as pg_depend has them (pg_class.dat). */
const RELATION = sql`1259::pg_catalog.oid`
const TYPE = sql`1247::pg_catalog.oid`
const FUNCTION = sql`1255::pg_catalog.oid`
const OPERATOR = sql`2617::pg_catalog.oid`
const CAST = sql`2605::pg_catalog.oid`
const SUPPORT_FUNCTION = sql`2603::pg_catalog.oid`
const RULE = sql`2618::pg_catalog.oid`
const POLICY = sql`3256::pg_catalog.oid`
const TRIGGER = sql`2620::pg_catalog.oid`
const DEFAULT = sql`2604::pg_catalog.oid`
const CONSTRAINT = sql`2606::pg_catalog.oid`

const NONE = sql`0::pg_catalog.oid`

/** The first OID that PostgreSQL uses for no object of its own (transam.h). */
export const FIRST_USER_OID = sql`16384`

/**
 * Built-in functions that change the session: set_config, and the advisory locks of the session.
 * Others run a text as SQL: those that return XML, ts_rewrite and ts_stat (pg_proc.dat).
 */
const CHANGES_SESSION = sql`2078|288[0-9]|289[0-2]|292[3-9]|2930|293[3-8]|3685|3689|3690`

/** RI_FKey_cascade_del, …_upd, …_setnull_… and …_setdefault_… (pg_proc.dat). */
const CASCADES = sql`1646, 1647, 1650, 1651, 1652, 1653`

/**
 * Whether an expression calls such a built-in function. pg_depend does not list built-in functions,
 * so this searches the text of the expression.
 */
function changesSession (expression: Fragment): Fragment {
  return sql`coalesce(${expression}::pg_catalog.text operator(pg_catalog.~)
    ':(funcid|opfuncid|aggfnoid|winfnoid) (${CHANGES_SESSION}) ', false)`
}

/** Whether the function `f` is VOLATILE and in a language other than internal (12) and C (13). */
export const isVolatile = sql`(f.provolatile operator(pg_catalog.=) 'v'
  and f.prolang operator(pg_catalog.<>) all (array[12, 13]::pg_catalog.oid[]))`

/**
 * Whether the function `f` has the name of a function that statements call without its schema.
 * `any` would take the planner longer.
 */
const hasUsedName = sql`pg_catalog.array_position(array['count', 'sum', 'avg', 'min', 'max',
  'json_agg', 'json_build_object', 'to_json', 'json_typeof', 'json_array_elements',
  'json_populate_record', 'json_populate_recordset', 'to_tsvector', 'unnest', 'array_remove',
  'row_number']::pg_catalog.name[], f.proname) is not null`

/**
 * Whether there is code that can run for each table: that of an operator or a cast between built-in
 * types, of an operator class, or of a function or an aggregate that a statement may call instead
 * of the built-in one. It is evaluated once for each query.
 */
const isOfEachTable = sql`(select exists (
    select from pg_catalog.pg_proc as f
      left join pg_catalog.pg_depend as d on d.refclassid operator(pg_catalog.=) ${FUNCTION}
        and d.refobjid operator(pg_catalog.=) f.oid
      where f.oid operator(pg_catalog.>=) ${FIRST_USER_OID} and ${isVolatile}
        and (${hasUsedName} or case
          when d.classid operator(pg_catalog.=) ${SUPPORT_FUNCTION} then true
          when d.classid operator(pg_catalog.=) ${FUNCTION} then (
            select ${hasUsedName} from pg_catalog.pg_proc as f
              where f.oid operator(pg_catalog.=) d.objid)
          when d.classid operator(pg_catalog.=) any (array[${OPERATOR}, ${CAST}]) then not exists (
            select from pg_catalog.pg_depend as t
              where t.classid operator(pg_catalog.=) d.classid
                and t.objid operator(pg_catalog.=) d.objid
                and t.refclassid operator(pg_catalog.=) ${TYPE}) end)))`

/**
 * The objects that are reached from one of them.
 * - `access`: `w` if the operation writes the relation, `r` if it reads it. `n`: only what the
 *   object is made of is used, such as the types of the columns of a row type.
 * - `selected`: whether a select reaches the object, too.
 * - `code`: whether the object is code. Then nothing more is needed from there.
 */
function reachedFrom (start: Fragment): Fragment {
  return sql`recursive reached (class, oid, access, selected, code) as (
    ${start}
    union
    select n.* from reached as r cross join lateral (${NEXT}) as n where not r.code)`
}

const isRelation = sql`r.class operator(pg_catalog.=) ${RELATION}`
const isUsed = sql`${isRelation} and r.access operator(pg_catalog.<>) 'n'`
const isWritten = sql`${isRelation} and r.access operator(pg_catalog.=) 'w'`
const isType = sql`r.class operator(pg_catalog.=) ${TYPE}`
const isFunction = sql`r.class operator(pg_catalog.=) ${FUNCTION}`

/** The SELECT rule of a view; `ev_type` 2 to 4 are the rules for writes. */
const isSelectRule = sql`x.ev_type operator(pg_catalog.=) '1'`
/** A policy for only INSERT or only DELETE. A select with a lock needs those for UPDATE. */
const isWritePolicy = sql`x.polcmd operator(pg_catalog.=)
  any (array['a', 'd']::pg_catalog."char"[])`

const isCodeByDefault = changesSession(sql`x.typdefaultbin`)
const isOfTypes = sql`r.class operator(pg_catalog.=)
  any (array[${TYPE}, ${CAST}, ${OPERATOR}])`
const isParent = sql`x.inhparent operator(pg_catalog.=) r.oid`
const isCascade = sql`x.tgfoid operator(pg_catalog.=) any (array[${CASCADES}]::pg_catalog.oid[])`

/** What an operation that uses the object `r` can use next. */
const NEXT = fixed(sql`
    select ${RULE}, x.oid, r.access, r.selected and ${isSelectRule},
        ${changesSession(sql`x.ev_action`)} or ${changesSession(sql`x.ev_qual`)}
      from pg_catalog.pg_rewrite as x
      where ${isUsed} and x.ev_class operator(pg_catalog.=) r.oid
        and x.ev_enabled operator(pg_catalog.<>) 'D'
        and (${isSelectRule} or r.access operator(pg_catalog.=) 'w')
    union all
    select ${POLICY}, x.oid, 'r', r.selected and not ${isWritePolicy},
        ${changesSession(sql`x.polqual`)} or ${changesSession(sql`x.polwithcheck`)}
      from pg_catalog.pg_policy as x
      where ${isUsed} and x.polrelid operator(pg_catalog.=) r.oid
        and (r.access operator(pg_catalog.=) 'w' or not ${isWritePolicy})
    union all
    select ${RELATION}, case when ${isParent} then x.inhrelid else x.inhparent end,
        case when ${isParent} then r.access else 'n' end, ${isParent} and r.selected, false
      from pg_catalog.pg_inherits as x
      where ${isRelation} and case when ${isParent} then r.access operator(pg_catalog.<>) 'n'
          else r.access operator(pg_catalog.<>) 'r' end
        and (${isParent} or x.inhrelid operator(pg_catalog.=) r.oid)
    union all
    select ${RELATION}, x.indexrelid, 'n', r.selected, false
      from pg_catalog.pg_index as x
      where ${isUsed} and x.indrelid operator(pg_catalog.=) r.oid
    union all
    select case when ${isCascade} then ${RELATION} else ${TRIGGER} end,
        case when ${isCascade} then x.tgconstrrelid else x.oid end, 'w', false,
        ${changesSession(sql`x.tgqual`)}
      from pg_catalog.pg_trigger as x
      where ${isWritten} and x.tgrelid operator(pg_catalog.=) r.oid
        and x.tgenabled operator(pg_catalog.<>) 'D'
        and (x.tgtype operator(pg_catalog.&) 28::pg_catalog.int2) operator(pg_catalog.<>) 0
    union all
    select ${DEFAULT}, x.oid, 'n', false, ${changesSession(sql`x.adbin`)}
      from pg_catalog.pg_attrdef as x
      where ${isWritten} and x.adrelid operator(pg_catalog.=) r.oid
    union all
    select ${CONSTRAINT}, x.oid, 'n', r.selected and ${isType}, ${changesSession(sql`x.conbin`)}
      from pg_catalog.pg_constraint as x
      where (${isType} or ${isWritten})
        and x.conrelid operator(pg_catalog.=) case when ${isType} then ${NONE} else r.oid end
        and x.contypid operator(pg_catalog.=) case when ${isType} then r.oid else ${NONE} end
    union all
    select case when ${isCodeByDefault} then ${TYPE} else ${RELATION} end, x.typrelid, 'n',
        r.selected, ${isCodeByDefault}
      from pg_catalog.pg_type as x
      where ${isType} and x.oid operator(pg_catalog.=) r.oid
    union all
    select ${FUNCTION}, f.oid, 'n', r.selected, true
      from pg_catalog.pg_proc as f
      where ${isFunction} and f.oid operator(pg_catalog.=) r.oid and (${isVolatile}
        or ${changesSession(sql`f.proargdefaults`)} or ${changesSession(sql`f.prosqlbody`)})
    union all
    select d.refclassid, d.refobjid, case
          when d.refclassid operator(pg_catalog.=) ${FUNCTION} and not ${isOfTypes} then 'r'
          when d.refclassid operator(pg_catalog.<>) ${RELATION} then 'n'
          when r.class operator(pg_catalog.=) ${RULE} then r.access
          else 'r' end,
        r.selected and not (${isWritten} and d.refclassid operator(pg_catalog.=) ${FUNCTION}), false
      from pg_catalog.pg_depend as d
      where d.classid operator(pg_catalog.=) r.class and d.objid operator(pg_catalog.=) r.oid
        and (d.refclassid operator(pg_catalog.=) any (array[${FUNCTION}, ${OPERATOR}])
          or (d.refclassid operator(pg_catalog.=) ${TYPE} and (${isType} or (
            not ${isOfTypes} and not (${isFunction} and r.access operator(pg_catalog.=) 'n'))))
          or (d.refclassid operator(pg_catalog.=) ${RELATION} and r.class operator(pg_catalog.=)
            any (array[${RULE}, ${POLICY}, ${FUNCTION}])))
    union all
    select d.classid, d.objid, 'n', r.selected, false
      from pg_catalog.pg_depend as d
      where ${isType} and d.refclassid operator(pg_catalog.=) ${TYPE}
        and d.refobjid operator(pg_catalog.=) r.oid
        and d.classid operator(pg_catalog.=) any (array[${CAST}, ${OPERATOR}])`)

/** Builds an expression for the relation with this OID: the JSON of RunnableCode. */
export function codeOfRelation (relation: Fragment): Fragment {
  return sql`(with ${reachedFrom(sql`select ${RELATION}, ${relation}, 'w', true, ${
    isOfEachTable
  }`)} select pg_catalog.json_build_object('reads', pg_catalog.bool_or(code and selected),
      'writes', pg_catalog.bool_or(code)) from reached)`
}

/** Builds a condition on the OID of a function: a call can run code. */
export function callRunsCode (oid: Fragment): Fragment {
  return sql`(with ${reachedFrom(sql`select ${FUNCTION}, ${oid}, 'r', true,
      ${isOfEachTable} or ${oid}::pg_catalog.text operator(pg_catalog.~)
        '^(${CHANGES_SESSION})$'`)}
    select pg_catalog.bool_or(code) from reached)`
}
