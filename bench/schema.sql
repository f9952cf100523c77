-- The schema of every contender: the same tables, role and row level security. The superuser runs
-- it in an empty database.

-- The caller, from the claims of the token, as with Oneflight, PostgREST and Supabase.
create function caller() returns text stable language sql
  return nullif(current_setting('request.jwt.claims', true), '')::json ->> 'sub';

-- The hot row: invoices are numbered without gaps, so every batch updates the same row and holds it
-- until it commits.
create table counters (
  id int primary key,
  n bigint not null
);

create table invoices (
  id uuid primary key default gen_random_uuid(),
  number bigint not null unique,
  note text not null,
  owner text not null default caller(),
  created_at timestamptz not null default now()
);

create table invoice_lines (
  id uuid primary key default gen_random_uuid(),
  invoice_id uuid not null references invoices,
  article text not null,
  qty int not null,
  owner text not null default caller()
);

-- The order: no batch waits for another one.
create table customers (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  owner text not null default caller()
);

create table orders (
  id uuid primary key default gen_random_uuid(),
  customer_id uuid not null references customers,
  status text not null default 'open' check (status in ('open', 'paid', 'shipped')),
  owner text not null default caller(),
  created_at timestamptz not null default now()
);

create table order_items (
  order_id uuid not null references orders,
  sku text not null,
  qty int not null check (qty > 0),
  price numeric(10, 2) not null,
  owner text not null default caller(),
  primary key (order_id, sku)
);

-- Many rows in one operation.
create table readings (
  id bigint not null,
  sensor text not null,
  value numeric not null,
  taken_at timestamptz not null
);

-- The words of the batch language (bench/words/). Each caller has 100 boxes on 10 shelves, with 3
-- items in each box. The boxes have room on their pages for updated rows.
create table boxes (
  id int primary key,
  shelf int not null,
  label text not null,
  weight int not null,
  changes int not null default 0,
  updated_at timestamptz,
  owner text not null default caller()
) with (fillfactor = 50);
create index on boxes (shelf);
-- PostGraphile has a type Box of its own.
comment on table boxes is '@name crates';

create table box_items (
  box_id int not null references boxes,
  sku text not null,
  qty int not null,
  price numeric(10, 2) not null,
  owner text not null default caller(),
  primary key (box_id, sku)
);

create table entries (
  id bigint generated always as identity primary key,
  box_id int not null,
  sku text not null,
  qty int not null check (qty > 0),
  price numeric(10, 2) not null,
  updated_at timestamptz,
  owner text not null default caller()
);

create type colour as enum ('red', 'green', 'blue');
create domain share as numeric(4, 3) check (value between 0 and 1);

create table parcels (
  id bigint generated always as identity primary key,
  tags text[] not null,
  colour colour not null,
  data jsonb not null,
  filled share not null,
  updated_at timestamptz,
  owner text not null default caller()
);

-- Code of the database, which only the part `guarded` switches on.
create function touch() returns trigger language plpgsql as $$
begin
  new.updated_at := now();
  return new;
end
$$;
create trigger touch before insert or update on boxes for each row execute function touch();
create trigger touch before insert or update on entries for each row execute function touch();
create trigger touch before insert or update on parcels for each row execute function touch();
create procedure switch_code(enabled boolean) language plpgsql as $$
declare
  name text;
begin
  foreach name in array array['boxes', 'entries', 'parcels'] loop
    execute format('alter table %I %s trigger touch', name,
      case when enabled then 'enable' else 'disable' end);
  end loop;
  execute format('alter function quote %s', case when enabled then 'volatile' else 'stable' end);
end
$$;

alter table invoices enable row level security;
alter table invoice_lines enable row level security;
alter table customers enable row level security;
alter table orders enable row level security;
alter table order_items enable row level security;
create policy own on invoices to oneflight_bench_user
  using (owner = caller()) with check (owner = caller());
create policy own on invoice_lines to oneflight_bench_user
  using (owner = caller()) with check (owner = caller());
create policy own on customers to oneflight_bench_user
  using (owner = caller()) with check (owner = caller());
create policy own on orders to oneflight_bench_user
  using (owner = caller()) with check (owner = caller());
create policy own on order_items to oneflight_bench_user
  using (owner = caller()) with check (owner = caller());
-- These statements have many rows: they read the caller once, not once per row.
alter table boxes enable row level security;
alter table box_items enable row level security;
alter table entries enable row level security;
alter table parcels enable row level security;
create policy own on boxes to oneflight_bench_user using (owner = (select caller()));
create policy own on box_items to oneflight_bench_user using (owner = (select caller()));
create policy own on entries to oneflight_bench_user using (owner = (select caller()));
create policy own on parcels to oneflight_bench_user using (owner = (select caller()));
grant select, insert, update, delete on all tables in schema public to oneflight_bench_user;

-- Computes the lines of an offer.
create function quote(prefix text, discount numeric, items jsonb)
  returns table (article text, qty int, total numeric)
  stable language plpgsql as $$
begin
  return query
    select quote.prefix || i.sku, i.qty, round(i.qty * i.price * (1 - quote.discount), 2)
    from jsonb_to_recordset(quote.items) as i(sku text, qty int, price numeric)
    order by i.sku;
end
$$;

-- The whole hot batch as one function.
create function number_invoice(note text, article text, qty int, owner text) returns json
language plpgsql as $$
declare
  taken bigint;
  made uuid;
begin
  update counters set n = n + 1 where id = 1 returning n into taken;
  insert into invoices (number, note, owner)
    values (taken, number_invoice.note, number_invoice.owner)
    returning id into made;
  insert into invoice_lines (invoice_id, article, qty, owner)
    values (made, number_invoice.article, number_invoice.qty, number_invoice.owner);
  return (select row_to_json(i) from invoices i where i.id = made);
end
$$;

-- The whole order as one function.
create function place_order(name text, items jsonb) returns json
language plpgsql as $$
declare
  customer uuid;
  made uuid;
begin
  insert into customers (name) values (place_order.name) returning id into customer;
  insert into orders (customer_id) values (customer) returning id into made;
  insert into order_items (order_id, sku, qty, price)
    select made, i.sku, i.qty, i.price
    from jsonb_to_recordset(place_order.items) as i(sku text, qty int, price numeric);
  update orders set status = 'paid' where id = made;
  return json_build_object(
    'id', made,
    'items', (select json_agg(i) from order_items i where i.order_id = made)
  );
end
$$;

-- The limit has no role switch: the login role itself may do what the function does.
grant select, insert, update on counters, invoices, invoice_lines, customers, orders, order_items
  to oneflight_bench_login;
create policy limit_of_the_bench on invoices to oneflight_bench_login
  using (true) with check (true);
create policy limit_of_the_bench on invoice_lines to oneflight_bench_login
  using (true) with check (true);
create policy limit_of_the_bench on customers to oneflight_bench_login
  using (true) with check (true);
create policy limit_of_the_bench on orders to oneflight_bench_login
  using (true) with check (true);
create policy limit_of_the_bench on order_items to oneflight_bench_login
  using (true) with check (true);

-- Removes what the words have inserted.
create procedure clear_added() language plpgsql as $$
begin
  truncate entries, parcels;
  delete from boxes where id >= 10000;
end
$$;

-- The contents before each comparison: not empty, so that plans are made for tables with rows.
create procedure reset_tables() language plpgsql as $$
begin
  truncate counters, invoices, invoice_lines, customers, orders, order_items, readings, boxes,
    box_items, entries, parcels;
  insert into counters values (1, 10000);
  insert into invoices (number, note, owner)
    select n, 'earlier', 'caller-' || n % 100 from generate_series(1, 10000) n;
  insert into invoice_lines (invoice_id, article, qty, owner)
    select id, 'apple', 1, owner from invoices;
  insert into customers (name, owner)
    select 'earlier', 'caller-' || n % 100 from generate_series(1, 10000) n;
  insert into orders (customer_id, status, owner) select id, 'shipped', owner from customers;
  insert into order_items (order_id, sku, qty, price, owner)
    select id, sku, 1, 1, owner from orders, unnest(array['fig', 'nut', 'plum']) sku;
  insert into boxes (id, shelf, label, weight, owner)
    select n, n % 100 + 100 * (n / 1000), 'box', 1, 'caller-' || n % 100
    from generate_series(0, 9999) n;
  insert into box_items (box_id, sku, qty, price, owner)
    select id, sku, 1 + id / 100 % 10, 1.5, owner
    from boxes, unnest(array['fig', 'nut', 'plum']) sku;
end
$$;
