/**
 * The schemas of DB_EXTRA_SEARCH_PATH that a batch may have on its search_path. A role that can
 * create objects in a schema of the path can run code as every other role, because an operator or a
 * function that fits better is preferred. So a schema is left off in which a token's role can.
 */
import type postgres from 'postgres'
import { constant, identifier, join, render, sql, type Fragment } from '../sql/fragment.ts'

export interface ExtraSchemas {
  /** Schemas that exist and are safe, in the order of the configuration. */
  readonly extraSchemas: readonly string[]
  readonly unsafeSchemas: readonly UnsafeSchema[]
}

/** A schema that is left off, and the statements that change that, separated by `; `. */
export interface UnsafeSchema {
  readonly schema: string
  readonly remedy: string
}

/** A schema that exists, once for each role that makes it unsafe; with nulls when it is safe. */
interface Row {
  readonly schema: string
  /** Whether `holder` owns the schema; otherwise it was granted CREATE. */
  readonly owns: 'true' | 'false' | null
  /** null for PUBLIC. */
  readonly holder: string | null
  /** Who granted it; null for the owner. */
  readonly grantor: string | null
  /** Whether `holder` may grant it to others. */
  readonly grantable: 'true' | 'false' | null
}

/**
 * Reads them over a connection that was just opened. Missing schemas are left out without a word:
 * one that is created later is checked first, when the connection is replaced.
 */
export async function readExtraSchemas (
  client: postgres.Sql,
  names: readonly string[]
): Promise<ExtraSchemas> {
  if (names.length === 0) return { extraSchemas: [], unsafeSchemas: [] }
  const rows = await client.unsafe<Row[]>(render(question(names)).text)
  const safe = new Set(rows.filter(({ owns }) => owns === null).map(({ schema }) => schema))
  const unsafe = Map.groupBy(rows.filter(({ owns }) => owns !== null), ({ schema }) => schema)
  return {
    extraSchemas: names.filter(name => safe.has(name)),
    unsafeSchemas: Array.from(
      unsafe,
      ([schema, holders]) => ({ schema, remedy: originsOf(holders).map(remedyFor).join('; ') })
    )
  }
}

/** Without what was granted by other holders: it is revoked together with their own privilege. */
function originsOf (holders: readonly Row[]): readonly Row[] {
  return holders.filter(({ grantor }) =>
    grantor === null || holders.every(({ holder }) => holder !== grantor)
  )
}

function remedyFor ({ schema, owns, holder, grantor, grantable }: Row): string {
  const [place, role, granting] = [schema, holder, grantor].map(quote)
  if (owns === 'true') return `ALTER SCHEMA ${place} OWNER TO <a role that no token may name>`
  const cascade = grantable === 'true' ? ' CASCADE' : ''
  const revoke = `REVOKE CREATE ON SCHEMA ${place} FROM ${role}${cascade}`
  // PostgreSQL revokes what the current role granted, and a superuser counts as the owner.
  return grantor === null ? revoke : `SET ROLE ${granting}; ${revoke}; RESET ROLE`
}

function quote (name: string | null): string {
  return name === null ? 'PUBLIC' : render(identifier(name)).text
}

/**
 * `holders` may create objects in a schema; `members` have been granted a holder, also indirectly,
 * or own the database, which makes them members of pg_database_owner. Of these, `named` may be the
 * role of a token, and pg_has_role decides. It is asked about few roles only: with 10 000 roles it
 * took 7 s on PostgreSQL 14 to ask about all of them.
 */
function question (names: readonly string[]): Fragment {
  const list = join(names.map(constant), sql`, `)
  return sql`
    with recursive wanted as (
      select n.oid, n.nspname, n.nspowner, n.nspacl from pg_catalog.pg_namespace as n
      where n.nspname operator(pg_catalog.=) any (array[${list}]::pg_catalog.name[])
    ), holders as materialized (
      select w.oid as schema, true as owns, w.nspowner as holder,
        null::pg_catalog.oid as grantor, false as grantable
      from wanted as w
      union all
      select w.oid, false, a.grantee,
        case when a.grantor operator(pg_catalog.<>) w.nspowner then a.grantor end, a.is_grantable
      from wanted as w
      cross join lateral pg_catalog.aclexplode(
        coalesce(w.nspacl, pg_catalog.acldefault('n', w.nspowner))
      ) as a
      where a.privilege_type operator(pg_catalog.=) 'CREATE'
        and a.grantee operator(pg_catalog.<>) w.nspowner
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
        and pg_catalog.pg_has_role(session_user, n.member, ${privilege})
    )
    select w.nspname as schema, h.owns::pg_catalog.text as owns,
      h.grantable::pg_catalog.text as grantable,
      (select r.rolname from pg_catalog.pg_roles as r
        where r.oid operator(pg_catalog.=) h.holder) as holder,
      (select r.rolname from pg_catalog.pg_roles as r
        where r.oid operator(pg_catalog.=) h.grantor) as grantor
    from wanted as w
    left join (holders as h join unsafe as u on u.holder operator(pg_catalog.=) h.holder)
      on h.schema operator(pg_catalog.=) w.oid
    order by w.nspname, h.grantor is null, holder`
}

/** What allows SET ROLE: membership, from PostgreSQL 16 on membership with the option SET. */
const privilege = sql`case
  when pg_catalog.current_setting('server_version_num')::pg_catalog.int4
    operator(pg_catalog.>=) 160000 then 'SET'
  else 'MEMBER' end`
