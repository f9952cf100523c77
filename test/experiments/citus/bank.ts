/**
 * The bank of bank.ts on Citus: its tables are distributed by tenant, so a transfer between two
 * tenants may write on two workers.
 */
import { ACCOUNTS, BALANCE } from '../bank.ts'
import { ROLE } from '../own-server.ts'

/** The accounts of a tenant have every TENANTS-th id. */
export const TENANTS = 20

/**
 * A token with a tenant reads the rows of this tenant. The policies are of the dangerous kind:
 * without the claims they show every row.
 */
export const schema = `
  do $$ begin
    if to_regrole('${ROLE}') is null then create role ${ROLE} login; end if;
  end $$;
  grant ${ROLE} to oneflight_login;
  create table accounts (tenant text not null, id int, balance bigint not null,
    primary key (tenant, id)) with (fillfactor = 50);
  create table entries (n bigint generated always as identity, tenant text not null,
    batch int not null, debit int not null, credit int not null, amount int not null);
  create table closings (tenant text not null, batch int not null, transfers int not null,
    entry bigint not null);
  select create_distributed_table('accounts', 'tenant');
  select create_distributed_table('entries', 'tenant', colocate_with => 'accounts');
  select create_distributed_table('closings', 'tenant', colocate_with => 'accounts');
  insert into accounts select 't' || id % ${TENANTS}, id, ${BALANCE}
    from generate_series(1, ${ACCOUNTS}) as id;
${['accounts', 'entries', 'closings'].map(policyOf).join('\n')}
  grant all on accounts, entries, closings to ${ROLE};
  grant usage on all sequences in schema public to ${ROLE};`

function policyOf (table: string): string {
  return `  alter table ${table} enable row level security;
  create policy own on ${table} using (tenant = coalesce(
    nullif(current_setting('request.jwt.claims', true), '')::json ->> 'tenant', tenant));`
}

/**
 * Copies the rows into tables of the coordinator, where the audit of invariants.ts reads them.
 * `nodes`: the worker of each account.
 */
export const copyForAudit = `
  create schema audit;
  create table audit.accounts as select * from accounts;
  create table audit.entries as select * from entries;
  create table audit.closings as select * from closings;
  create table audit.nodes as select id, nodeport as node from audit.accounts
    join pg_dist_shard_placement
      on shardid = get_shard_id_for_distribution_column('public.accounts', tenant);`

/** Counts the committed batches with a transfer between accounts of two workers. */
export const countOverTwoWorkers = `
  select count(distinct batch)::int as count from audit.entries
    join audit.nodes as debits on debits.id = debit
    join audit.nodes as credits on credits.id = credit
  where debits.node <> credits.node`

interface Transfer {
  readonly debit: number
  readonly credit: number
  readonly amount: number
}

const tenantOf = (account: number): string => `t${account % TENANTS}`

/**
 * Returns the batch with this number: one transfer or three, half of them within one tenant. It
 * updates accounts in the order of their ids, which avoids deadlocks and their timeouts.
 */
export function makeCitusBatch (batch: number, random: () => number): object[] {
  const isLocal = random() < 0.5
  const home = Math.floor(random() * TENANTS)
  const transfers = Array.from({ length: random() < 0.8 ? 1 : 3 }, (): Transfer => {
    const [debit, credit] = pickAccounts(isLocal ? home : undefined, random)
    return { debit, credit, amount: 1 + Math.floor(random() * 100) }
  })
  const accounts = new Set(transfers.flatMap(({ debit, credit }) => [debit, credit]))
  const changes = [...accounts].sort((a, b) => a - b).map(id => changeAccount(id, transfers))
  const [first] = transfers as [Transfer]
  return [
    ...changes,
    {
      id: 'entries',
      op: 'insert',
      table: 'entries',
      values: transfers.map(({ debit, credit, amount }) => ({
        tenant: `$a${debit}.0.tenant`,
        batch,
        debit: `$a${debit}.0.id`,
        credit: `$a${credit}.0.id`,
        amount
      }))
    },
    {
      id: 'seen',
      op: 'select',
      table: 'accounts',
      where: { tenant: { eq: tenantOf(first.debit) }, id: { eq: first.debit } }
    },
    {
      id: 'closing',
      op: 'insert',
      table: 'closings',
      values: [{
        tenant: tenantOf(first.debit),
        batch,
        transfers: transfers.length,
        entry: '$entries.0.n'
      }]
    }
  ]
}

/** Returns two accounts, of the tenant with this number if there is one. */
function pickAccounts (
  home: number | undefined,
  random: () => number
): readonly [debit: number, credit: number] {
  const [step, choices] = home === undefined ? [1, ACCOUNTS] : [TENANTS, ACCOUNTS / TENANTS]
  const first = Math.floor(random() * choices)
  const second = (first + 1 + Math.floor(random() * (choices - 1))) % choices
  const account = (index: number): number => 1 + (home ?? 0) + index * step
  return [account(first), account(second)]
}

function changeAccount (id: number, transfers: readonly Transfer[]): object {
  const change = transfers.reduce(
    (sum, { debit, credit, amount }) =>
      sum + (credit === id ? amount : 0) - (debit === id ? amount : 0),
    0
  )
  return {
    id: `a${id}`,
    op: 'update',
    table: 'accounts',
    set: { balance: { $inc: change } },
    where: { tenant: { eq: tenantOf(id) }, id: { eq: id } }
  }
}
