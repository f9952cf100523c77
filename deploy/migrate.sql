-- Creates the table of idempotency keys, the procedure that stores the answers of committed batches
-- in it, and a function that the service calls after each batch. `npm run migrate` runs this file.
-- To run it by hand, use the owner of the database or a superuser:
--
--   psql -v ON_ERROR_STOP=1 -v login_role=oneflight -f deploy/migrate.sql "$DATABASE"
--
-- login_role is the role that the service logs in with. The file can run any number of times. Roles
-- of tokens get no privilege here, so no batch can read or forge an answer. Authors of triggers and
-- functions that batches run are trusted (docs/operations/security.md).

begin;

-- Without public, where other roles may have created functions that match better.
set local search_path = pg_catalog, pg_temp;

-- Two replicas may migrate at the same time, and IF NOT EXISTS does not wait for the other one.
do $$ begin perform pg_advisory_xact_lock(hashtextextended('oneflight.migrate', 0)); end $$;

create schema if not exists oneflight;

create table if not exists oneflight.idempotency_keys (
  principal bytea not null,         -- SHA-256 of the role, issuer, subject … of the token
  key text not null,                -- the header Idempotency-Key
  fingerprint bytea not null,       -- SHA-256 of the request: body and preferences
  answer text[],                    -- one JSON text per operation
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,  -- the key is free from then on; its row is deleted later
  primary key (principal, key)
);

-- The SHA-256 of the claims, except those that change with every token. It is null in rows of
-- versions before this column, which the service honours until they expire. An ALTER TABLE that has
-- nothing to do would wait for a backup, and every batch with a key behind it.
do $$
begin
  if not exists (select from pg_attribute where attname = 'claims'
    and attrelid = 'oneflight.idempotency_keys'::regclass) then
    alter table oneflight.idempotency_keys add column claims bytea;
  end if;
end
$$;

-- The same hash in hexadecimal digits, that of the current version, which knows more claims that
-- change, and a short hash of each claim by name, which tells what differs. Not valid if an earlier
-- version has written the row since: then the first one differs from claims.
do $$
begin
  if not exists (select from pg_attribute where attname = 'claim_hashes'
    and attrelid = 'oneflight.idempotency_keys'::regclass) then
    alter table oneflight.idempotency_keys add column claim_hashes text;
  end if;
end
$$;

create index if not exists idempotency_keys_expires_at on oneflight.idempotency_keys (expires_at);

-- Stores the answer of a batch with a key: the results, or those in the settings that are named.
-- Hashes are in hexadecimal digits. If there is an unexpired answer, or a setting is missing, it
-- reads another setting, which does not exist. The service recognizes the error by its name. A
-- procedure is not planned, and a session plans the statement in it only once.
create or replace procedure oneflight.store_answer(
  owner text, request_key text, request text, hashes text, seconds double precision,
  taken text, missing text, kept_in text[] default null, received text[] default null
) language plpgsql as $$
begin
  insert into oneflight.idempotency_keys as k
    (principal, key, fingerprint, claims, claim_hashes, expires_at, answer)
  values (
    pg_catalog.decode(owner, 'hex'), request_key, pg_catalog.decode(request, 'hex'),
    pg_catalog.decode(pg_catalog.left(hashes, 64), 'hex'), hashes,
    pg_catalog.clock_timestamp()
      operator(pg_catalog.+) pg_catalog.make_interval(secs => seconds),
    coalesce(received, array(
      select case when pg_catalog.current_setting(s.name, true) operator(pg_catalog.<>) ''
        then pg_catalog.current_setting(s.name) else pg_catalog.current_setting(missing) end
      from pg_catalog.unnest(kept_in) as s (name)))
  )
  on conflict (principal, key) do update set
    fingerprint = case when k.expires_at operator(pg_catalog.<=) pg_catalog.now()
      then excluded.fingerprint
      else pg_catalog.decode(pg_catalog.current_setting(taken), 'hex') end,
    claims = excluded.claims, claim_hashes = excluded.claim_hashes, created_at = excluded.created_at,
    expires_at = excluded.expires_at, answer = excluded.answer;
end
$$;

-- Releases advisory locks, and fails if a function of the batch prepared a statement in SQL, which
-- must not reach the next batch; the service then closes the connection. The service can do both
-- without this function, but a session plans the query in here only once. That saves a fifth of the
-- processor time of a small batch.
create or replace function oneflight.release_connection() returns void language plpgsql as $$
begin
  perform pg_catalog.pg_advisory_unlock_all();
  if exists (select from pg_catalog.pg_prepared_statement() where from_sql) then
    raise exception 'a function prepared a statement in SQL: the connection is closed';
  end if;
end
$$;

revoke all on all routines in schema oneflight from public;
revoke all on schema oneflight from public;
revoke all on oneflight.idempotency_keys from public;
grant usage on schema oneflight to :"login_role";
grant select, insert, update, delete on oneflight.idempotency_keys to :"login_role";
grant execute on all routines in schema oneflight to :"login_role";

-- On Citus: a change of this table makes the commit of its transaction a two-phase one. Otherwise a
-- change on one worker is committed there first, and a crash of the coordinator could lose the key
-- of a batch that is committed. The table is always empty. No role but login_role may use its schema.
do $$
begin
  if exists (select from pg_extension where extname = 'citus')
    and to_regclass('oneflight.two_phase_commit') is null then
    create table oneflight.two_phase_commit (id int primary key check (false));
    grant delete on oneflight.two_phase_commit to public;
    perform citus_add_local_table_to_metadata('oneflight.two_phase_commit');
  end if;
end
$$;

commit;
