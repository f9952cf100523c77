/**
 * Finds the schemas of DB_EXTRA_SEARCH_PATH that are safe on the search_path of a batch. PostgreSQL
 * prefers the operator or function whose argument types match best. A role that can create objects
 * in a schema of the path could therefore run code as every other role. So a schema is left
 * off when a token's role can create objects in it.
 */
import type postgres from 'postgres'
import { constant, identifier, join, render, sql, type Fragment } from '../fragment/fragment.ts'

export interface ExtraSchemas {
  /** Existing, safe schemas in configured order. */
  readonly extraSchemas: readonly string[]
  readonly unsafeSchemas: readonly UnsafeSchema[]
}

/** A schema that is left off, and the statements that make it safe, separated by `; `. */
export interface UnsafeSchema {
  readonly schema: string
  readonly remedy: string
}

/** An existing schema and a role that makes it unsafe; nulls when it is safe. */
interface Row {
  readonly schema: string
  /** Whether `holder` owns the schema; otherwise it was granted CREATE. */
  readonly owns: 'true' | 'false' | null
  /** null for PUBLIC. */
  readonly holder: string | null
  /** The role that granted CREATE; null for the owner. */
  readonly grantor: string | null
  /** Whether `holder` may grant CREATE to others. */
  readonly grantable: 'true' | 'false' | null
}

/**
 * Reads the schemas over a new connection. Missing schemas are silently left out: one that is
 * created later is checked when the connection is replaced.
 */
export async function readExtraSchemas (
  client: postgres.Sql,
  names: readonly string[]
): Promise<ExtraSchemas> {
  if (names.length === 0) return { extraSchemas: [], unsafeSchemas: [] }
  const rows = await client.unsafe<Row[]>(render(buildQuery(names)).text)
  const safe = new Set(rows.filter(({ owns }) => owns === null).map(({ schema }) => schema))
  const unsafe = Map.groupBy(rows.filter(({ owns }) => owns !== null), ({ schema }) => schema)
  return {
    extraSchemas: names.filter(name => safe.has(name)),
    unsafeSchemas: Array.from(
      unsafe,
      ([schema, holders]) => ({
        schema,
        remedy: findOrigins(holders).map(describeRemedy).join('; ')
      })
    )
  }
}

/** Leaves out privileges granted by other holders: they are revoked with the holder's own. */
function findOrigins (holders: readonly Row[]): readonly Row[] {
  return holders.filter(({ grantor }) =>
    grantor === null || holders.every(({ holder }) => holder !== grantor)
  )
}

function describeRemedy ({ schema, owns, holder, grantor, grantable }: Row): string {
  const [target, role, grantedBy] = [schema, holder, grantor].map(quote)
  if (owns === 'true') return `ALTER SCHEMA ${target} OWNER TO <a role that no token may name>`
  const cascade = grantable === 'true' ? ' CASCADE' : ''
  const revoke = `REVOKE CREATE ON SCHEMA ${target} FROM ${role}${cascade}`
  // REVOKE affects what the current role granted; a superuser counts as the owner.
  return grantor === null ? revoke : `SET ROLE ${grantedBy}; ${revoke}; RESET ROLE`
}

function quote (name: string | null): string {
  return name === null ? 'PUBLIC' : render(identifier(name)).text
}

/**
 * `holders` can create objects in a schema. `members` are members of a holder, directly or not, or
 * own the database, which makes them members of pg_database_owner. `named` are the members that a
 * token can name as its role; pg_has_role decides whether they can act as the holder. It is called
 * for these few only: for all of 10 000 roles it took 7 s on PostgreSQL 14.
 */
function buildQuery (names: readonly string[]): Fragment {
  const list = join(names.map(constant))
  return sql`
    with recursive candidates as (
      select n.oid, n.nspname, n.nspowner, n.nspacl from pg_catalog.pg_namespace as n
      where n.nspname operator(pg_catalog.=) any (array[${list}]::pg_catalog.name[])
    ), holders as materialized (
      select c.oid as schema, true as owns, c.nspowner as holder,
        null::pg_catalog.oid as grantor, false as grantable
      from candidates as c
      union all
      select c.oid, false, a.grantee,
        case when a.grantor operator(pg_catalog.<>) c.nspowner then a.grantor end, a.is_grantable
      from candidates as c
      cross join lateral pg_catalog.aclexplode(
        coalesce(c.nspacl, pg_catalog.acldefault('n', c.nspowner))
      ) as a
      where a.privilege_type operator(pg_catalog.=) 'CREATE'
        and a.grantee operator(pg_catalog.<>) c.nspowner
    ), members as (
      select h.holder, h.holder as member from holders as h
      union
      select h.holder, d.datdba from holders as h
      join pg_catalog.pg_database as d
        on d.datname operator(pg_catalog.=) pg_catalog.current_database()
      union
      select m.holder, a.member from members as m
      join pg_catalog.pg_auth_members as a on a.roleid operator(pg_catalog.=) m.member
    ), named as materialized (
      select m.holder, m.member from members as m
      join pg_catalog.pg_roles as r on r.oid operator(pg_catalog.=) m.member
      where not r.rolsuper and r.rolname operator(pg_catalog.<>) session_user
        and not pg_catalog.starts_with(r.rolname::pg_catalog.text, 'pg_')
    ), unsafe as materialized (
      select 0::pg_catalog.oid as holder
      union
      select n.holder from named as n
      where pg_catalog.pg_has_role(n.member, n.holder, 'USAGE')
        and pg_catalog.pg_has_role(session_user, n.member, ${SET_ROLE_PRIVILEGE})
    )
    select c.nspname as schema, h.owns::pg_catalog.text as owns,
      h.grantable::pg_catalog.text as grantable,
      (select r.rolname from pg_catalog.pg_roles as r
        where r.oid operator(pg_catalog.=) h.holder) as holder,
      (select r.rolname from pg_catalog.pg_roles as r
        where r.oid operator(pg_catalog.=) h.grantor) as grantor
    from candidates as c
    left join (holders as h join unsafe as u on u.holder operator(pg_catalog.=) h.holder)
      on h.schema operator(pg_catalog.=) c.oid
    order by c.nspname, h.grantor is null, holder`
}

/** The privilege that allows SET ROLE: membership, since PostgreSQL 16 with the SET option. */
const SET_ROLE_PRIVILEGE = sql`case
  when pg_catalog.current_setting('server_version_num')::pg_catalog.int4
    operator(pg_catalog.>=) 160000 then 'SET'
  else 'MEMBER' end`
