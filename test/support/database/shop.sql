-- A small shop with row level security, the schema of most tests. Roles exist already.
create table customers (
  id bigint generated always as identity primary key,
  name text not null,
  email text unique,
  created_at timestamptz not null default now()
);
create table orders (
  id bigint generated always as identity primary key,
  customer_id bigint not null references customers,
  total numeric(12, 2) not null default 0 check (total >= 0),
  note text,
  owner text not null default current_setting('request.jwt.claims')::json ->> 'role'
);
create table order_items (
  order_id bigint not null references orders on delete cascade,
  sku text not null,
  qty int not null,
  primary key (order_id, sku)
);
create table stock (
  sku text primary key,
  qty int not null check (qty >= 0)
);
insert into stock values ('apple', 10), ('pear', 5);
create view order_totals as
  select customer_id, sum(total) as total from orders group by customer_id;
create schema private;
create table private.secrets (id int primary key, word text);
grant usage on schema public, private to oneflight_user, oneflight_other, oneflight_anon;
grant all on all tables in schema public to oneflight_user, oneflight_other;
grant select on stock to oneflight_anon;
