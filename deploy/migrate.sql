-- What Oneflight keeps in the database: the idempotency keys of committed batches with their answers.
-- `npm run migrate` runs this file. By hand, as a role that may create schemas:
--
--   psql -v ON_ERROR_STOP=1 -v login_role=oneflight -f deploy/migrate.sql "$DATABASE"
--
-- login_role is the role that the service logs in with. Run it as often as you like: what is there stays as it is.
-- Roles of tokens get no right here, so no batch can read the answers of others or forge one. (Who writes triggers and functions that batches run is trusted:
-- docs/operations/security.md.)

begin;

-- Others may create in public, and what they made could fit better than what is meant.
set local search_path = pg_catalog, pg_temp;

-- Two replicas may migrate at the same time, and IF NOT EXISTS does not wait for the other.
do $$ begin perform pg_advisory_xact_lock(hashtextextended('oneflight.migrate', 0)); end $$;

create schema if not exists oneflight;

create table if not exists oneflight.idempotency_keys (
  principal bytea not null,               -- SHA-256 of who sent it: role, issuer and subject of the token
  key text not null,                      -- the header Idempotency-Key
  fingerprint bytea not null,             -- SHA-256 of the request: body and preferences
  answer text[],                          -- one JSON text for each operation; null only inside of the transaction that runs
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,        -- from then on the key is free; the service deletes such rows now and then
  primary key (principal, key)
);

create index if not exists idempotency_keys_expires_at on oneflight.idempotency_keys (expires_at);

revoke all on schema oneflight from public;
revoke all on oneflight.idempotency_keys from public;
grant usage on schema oneflight to :"login_role";
grant select, insert, update, delete on oneflight.idempotency_keys to :"login_role";

commit;
