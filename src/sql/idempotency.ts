/**
 * The statements of a batch with an idempotency key, about the table of deploy/migrate.sql. All of
 * them run as the login role, which alone may touch it: the claim before the role of the token is
 * taken, the storing after it was put down. Everything has its schema written in front, operators
 * too: others may create in the schemas of the login role's search_path, and a trigger of the batch
 * may have changed it.
 */
import { arrayText, constant, integer, parameter, render, sql, type Fragment } from './fragment.ts'
import type { Statement } from './compile.ts'
import { raise } from './marker.ts'
import { answerSetting } from './cte-builder.ts'
import { checkConnection } from './session.ts'

/** An idempotency key of one request. `principal` and `fingerprint` in hexadecimal digits. */
export interface Key {
  /** Whose key it is. */
  readonly principal: string
  readonly text: string
  /** Of what is asked: another one under the same key is another request. */
  readonly fingerprint: string
  /** Number of the advisory lock that a request holds while it runs. */
  readonly lock: bigint
  /** How long the answer is kept. */
  readonly ttlSeconds: number
  /** How long the server waits for what belongs behind the claim. */
  readonly idleTimeoutMs: number
}

const table = sql`oneflight.idempotency_keys`

/**
 * Takes the key for this transaction, or fails with the marker `busy` (another transaction has it)
 * or `taken` (there is an answer already). The locks of a service that died behind it are not held
 * for ever. The row is inserted and not only looked for: a snapshot may be older than the row, an
 * index never is.
 */
export function claimStatement (
  { principal, text, fingerprint, lock, ttlSeconds, idleTimeoutMs }: Key
): Statement {
  return prepared(sql`with l as materialized (
      select pg_catalog.set_config('idle_in_transaction_session_timeout', ${
    parameter(String(idleTimeoutMs))
  }, true), ${checkConnection},
        pg_catalog.pg_try_advisory_xact_lock(${parameter(String(lock))}::pg_catalog.int8) as free
    ), i as (
      insert into ${table} as k (principal, key, fingerprint, expires_at)
      select pg_catalog.decode(${parameter(principal)}, 'hex'), ${
    parameter(text)
  }, pg_catalog.decode(${parameter(fingerprint)}, 'hex'),
        pg_catalog.now() operator(pg_catalog.+) pg_catalog.make_interval(secs => ${
    parameter(String(ttlSeconds))
  })
      from l where l.free
      on conflict (principal, key) do update set fingerprint = excluded.fingerprint, answer = null,
        created_at = excluded.created_at, expires_at = excluded.expires_at
        where k.expires_at operator(pg_catalog.<=) pg_catalog.now()
      returning 1
    )
    select case when not l.free then ${
    raise('busy', sql`pg_catalog.pg_backend_pid()`)
  } when not exists (select from i) then ${
    raise('taken', sql`pg_catalog.pg_backend_pid()`)
  } end from l`)
}

/**
 * Puts the role of the token down, and a search_path in which no function or operator of a user can
 * stand. Not prepared, and neither is what follows: a trigger may have put a statement of its own
 * under the name of a prepared one.
 */
export const releaseStatement: Statement = {
  ...render(
    sql`select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
      pg_catalog.set_config('role', 'none', true)`
  ),
  prepare: false
}

/**
 * Stores the answers of the operations, from now on. Fails with the marker `session` when one of
 * them is gone: a trigger reset the settings.
 */
export function storeStatement (
  { principal, text, ttlSeconds }: Key,
  operations: number
): Statement {
  const names = arrayText(Array.from({ length: operations }, (_, i) => answerSetting(i)))
  const gone = raise('session', sql`pg_catalog.pg_backend_pid()`)
  return {
    ...render(
      sql`update ${table} set expires_at = pg_catalog.clock_timestamp() operator(pg_catalog.+)
        pg_catalog.make_interval(secs => ${parameter(String(ttlSeconds))}), answer = (
        select pg_catalog.array_agg(case when pg_catalog.current_setting(a.name,
          true) operator(pg_catalog.<>) '' then pg_catalog.current_setting(a.name,
          true) else ${gone} end order by a.position)
        from pg_catalog.unnest(${
        parameter(names)
      }::pg_catalog.text[]) with ordinality as a (name, position)
      ) where ${sameKey(principal, text, parameter)} returning null`
    ),
    prepare: false
  }
}

/**
 * One row for each operation: whether the key is that of the same request, whether it had not
 * expired so many seconds ago, and the answer. No row: there is no such key. One that has expired
 * is there as long as its row is.
 */
export function answerText ({ principal, text, fingerprint }: Key, secondsAgo: number): string {
  return render(
    sql`select k.fingerprint operator(pg_catalog.=) pg_catalog.decode(${
      constant(fingerprint)
    }, 'hex'), k.expires_at operator(pg_catalog.>) (pg_catalog.clock_timestamp()
      operator(pg_catalog.-) pg_catalog.make_interval(secs => ${
      constant(String(secondsAgo))
    })), a.answer
    from ${table} as k, pg_catalog.unnest(k.answer) with ordinality as a (answer, position)
    where ${sameKey(principal, text, constant)} order by a.position`
  ).text
}

/** Waits until no transaction runs under the key. */
export function waitText ({ lock }: Key): string {
  return `select pg_catalog.pg_advisory_xact_lock(${lock})`
}

/**
 * Deletes a bounded number of expired keys; answers how many. Rows that a request takes over at
 * this moment are left to it, and for the longest time that a request may take (an hour) those that
 * one may still look for.
 */
export function pruneText (most: number): string {
  return render(sql`with d as (
      delete from ${table} where ctid operator(pg_catalog.=) any (array(
        select ctid from ${table} where expires_at operator(pg_catalog.<=) (pg_catalog.now()
          operator(pg_catalog.-) pg_catalog.make_interval(hours => 1)) order by expires_at limit ${
    integer(most)
  } for update skip locked
      )) returning 1
    ) select pg_catalog.count(*) as deleted from d`).text
}

function sameKey (principal: string, text: string, value: (text: string) => Fragment): Fragment {
  return sql`principal operator(pg_catalog.=) pg_catalog.decode(${
    value(principal)
  }, 'hex') and key operator(pg_catalog.=) ${value(text)}`
}

function prepared (statement: Fragment): Statement {
  return { ...render(statement), prepare: true }
}
