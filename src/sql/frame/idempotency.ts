/**
 * Statements for batches with an idempotency key. They use the table of deploy/migrate.sql, which
 * only the login role may access. The claim therefore runs before the role of the token is set, and
 * the storing after it is reset. All names and operators include their schema: other users may
 * create objects in schemas of the login role's search_path, and a trigger may have changed it.
 */
import { idleTimeoutMs } from '../../../schemas/database.ts'
import type { KeyOwner } from '../../../schemas/token.ts'
import {
  empty,
  integer,
  parameter,
  render,
  requestConstant,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import { arrayText } from '../../plan/value-text.ts'
import { raise } from '../statement/raised-error.ts'
import { answerSetting } from '../statement/settings.ts'
import type { Statement } from '../statement/statement.ts'
import { checkConnection, setRoleStatement } from './session.ts'

/** The idempotency key of a request, with its owner. Hashes are in hexadecimal digits. */
export interface Key extends KeyOwner {
  readonly text: string
  /** The hash of the request, which detects another request with the same key. */
  readonly fingerprint: string
  /** The number of the advisory lock that a request holds while it runs. */
  readonly lock: bigint
  /** How long the response is stored. */
  readonly ttlSeconds: number
}

const TABLE = sql`oneflight.idempotency_keys`

/**
 * Claims the key for this transaction, or raises `busy` (another transaction has it) or `taken`
 * (there is a stored response). The snapshot of this look may be older than a response that was
 * stored just before: then storeStatement raises `taken`, or an operation fails. `serializable`: it
 * does not look, because two transactions that look and then store would conflict. The timeouts
 * release the lock of a service that has died.
 */
export function claimStatement (
  { principal, text, lock }: Key,
  { serializable = false } = {}
): Statement {
  const stored = sql` when exists (select from ${TABLE} where ${
    sameKey(principal, text, parameter)
  } and expires_at operator(pg_catalog.>) pg_catalog.now()) then ${raise('taken')}`
  return prepared(sql`with l as materialized (
      select pg_catalog.set_config('idle_in_transaction_session_timeout', ${
    parameter(String(idleTimeoutMs))
  }, true), ${checkConnection},
        pg_catalog.pg_try_advisory_xact_lock(${parameter(String(lock))}::pg_catalog.int8) as free
    )
    select case when not l.free then ${raise('busy')}${serializable ? empty : stored} end from l`)
}

/**
 * On Citus: makes the commit of the transaction a two-phase one, so that the key and the changes on
 * workers are committed together. The table is empty; see deploy/migrate.sql.
 */
export const twoPhaseStatement: Statement = prepared(sql`delete from oneflight.two_phase_commit`)

/** Sets the role that stores the response. */
export const loginRoleStatement = setRoleStatement(sql`none`)

/**
 * The results that operations have kept in settings. Raises `reset` if one is missing, because a
 * trigger reset the settings.
 */
function keptResults (operations: number): Fragment {
  const names = arrayText(Array.from({ length: operations }, (_, i) => answerSetting(i)))
  const kept = sql`pg_catalog.current_setting(a.name, true)`
  return sql`array(select case when ${kept} operator(pg_catalog.<>) '' then ${kept}
          else ${raise('reset')} end
        from pg_catalog.unnest(${parameter(names)}::pg_catalog.text[]) as a (name))`
}

/**
 * Stores results: those of this number of operations, which are in settings, or given ones. Their
 * lifetime starts now. Raises `taken` if there is an answer already: unlike the snapshot of the
 * claim, an index is always current.
 */
export function storeStatement (
  { principal, claims, earlierClaims, eachClaim, text, fingerprint, ttlSeconds }: Key,
  results: number | readonly string[]
): Statement {
  const answer = typeof results === 'number'
    ? keptResults(results)
    : sql`${parameter(arrayText(results))}::pg_catalog.text[]`
  const hashes = `${earlierClaims}${claims}${eachClaim}`
  return prepared(sql`insert into ${TABLE} as k
      (principal, key, fingerprint, claims, claim_hashes, expires_at, answer)
    values (${fromHex(parameter(principal))}, ${parameter(text)},
      ${fromHex(parameter(fingerprint))}, ${fromHex(parameter(earlierClaims))}, ${
    parameter(hashes)
  }, pg_catalog.clock_timestamp() operator(pg_catalog.+)
      pg_catalog.make_interval(secs => ${parameter(String(ttlSeconds))}), ${answer})
    on conflict (principal, key) do update set fingerprint = case
        when k.expires_at operator(pg_catalog.<=) pg_catalog.now() then excluded.fingerprint
        else ${fromHex(raise('taken'))} end,
      claims = excluded.claims, claim_hashes = excluded.claim_hashes,
      created_at = excluded.created_at, expires_at = excluded.expires_at, answer = excluded.answer`)
}

/**
 * Returns a query with one row per operation: what differs from the request that stored the key
 * (`claims`, `request` or `nothing`), whether the key was still valid `secondsAgo`, the result, the
 * id of the transaction that stored it and the next id (see addEpoch), `eachClaim` of the owner,
 * and whether the server has synchronous standbys. There is no row for an unknown key. An expired
 * key is known until its row is deleted. A row of an earlier version has only the hash of that
 * version, or no claims to compare.
 */
export function answerText (
  { principal, claims, earlierClaims, text, fingerprint }: Key,
  secondsAgo: number
): string {
  return render(
    sql`select case when case when h.ours then pg_catalog.substr(k.claim_hashes, 65, 64)
        operator(pg_catalog.<>) ${requestConstant(claims)} else k.claims operator(pg_catalog.<>) ${
      fromHex(requestConstant(earlierClaims))
    } end then 'claims' when k.fingerprint operator(pg_catalog.<>) ${
      fromHex(requestConstant(fingerprint))
    } then 'request' else 'nothing' end, k.expires_at operator(pg_catalog.>)
      (pg_catalog.clock_timestamp() operator(pg_catalog.-) pg_catalog.make_interval(secs => ${
      requestConstant(String(secondsAgo))
    })), a.answer, k.xmin::pg_catalog.text, pg_catalog.pg_snapshot_xmax(
      pg_catalog.pg_current_snapshot())::pg_catalog.text,
      case when h.ours then pg_catalog.substr(k.claim_hashes, 129) end,
      pg_catalog.current_setting('synchronous_standby_names') operator(pg_catalog.<>) ''
    from ${TABLE} as k, pg_catalog.unnest(k.answer) with ordinality as a (answer, position),
      lateral (select pg_catalog.left(k.claim_hashes, 64) operator(pg_catalog.=)
        pg_catalog.encode(k.claims, 'hex') as ours) as h
    where ${sameKey(principal, text, requestConstant)} order by a.position`
  ).text
}

/** Returns a statement that waits until no transaction uses the key. */
export function waitText ({ lock }: Key): string {
  return `select pg_catalog.pg_advisory_xact_lock(${lock})`
}

/**
 * Returns a statement that deletes up to `limit` expired keys and returns their number. It skips
 * rows that a request is about to reuse. It also keeps rows for an hour, the longest time of a
 * request, because a request may still look for them.
 */
export function pruneText (limit: number): string {
  return render(sql`with d as (
      delete from ${TABLE} where ctid operator(pg_catalog.=) any (array(
        select ctid from ${TABLE} where expires_at operator(pg_catalog.<=) (pg_catalog.now()
          operator(pg_catalog.-) pg_catalog.make_interval(hours => 1)) order by expires_at limit ${
    integer(limit)
  } for update skip locked
      )) returning 1
    ) select pg_catalog.count(*) as deleted from d`).text
}

function sameKey (principal: string, text: string, value: (text: string) => Fragment): Fragment {
  return sql`principal operator(pg_catalog.=) ${
    fromHex(value(principal))
  } and key operator(pg_catalog.=) ${value(text)}`
}

/** Bytes from their hexadecimal digits. */
function fromHex (digits: Fragment): Fragment {
  return sql`pg_catalog.decode(${digits}, 'hex')`
}

function prepared (statement: Fragment): Statement {
  return { ...render(statement), prepare: true }
}
