-- Creates the table of idempotency keys. `npm run migrate` runs this file. To run it by hand, use
-- the owner of the database or a superuser:
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

revoke all on schema oneflight from public;
revoke all on oneflight.idempotency_keys from public;
grant usage on schema oneflight to :"login_role";
grant select, insert, update, delete on oneflight.idempotency_keys to :"login_role";

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
