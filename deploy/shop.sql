-- The sample schema of `npm run dev` and compose.yaml: a small shop with roles and row level security.
-- Run once, as superuser, in an empty database.

-- The service logs in as `oneflight`, which may do nothing by itself and takes the role that a token names.
do $$
begin
  if not exists (select from pg_roles where rolname = 'shop_anonymous') then
    create role shop_anonymous nologin;
    create role shop_customer nologin;
    create role oneflight login noinherit password 'oneflight';
    grant shop_anonymous, shop_customer to oneflight;
  end if;
end
$$;

-- Who the token says the caller is.
create function caller() returns text stable language sql
  return nullif(current_setting('request.jwt.claims', true), '')::json ->> 'sub';

create table customers (
  id bigint generated always as identity primary key,
  name text not null,
  owner text not null default caller()
);

create table orders (
  id bigint generated always as identity primary key,
  customer_id bigint not null references customers,
  status text not null default 'open' check (status in ('open', 'paid', 'shipped')),
  owner text not null default caller(),
  created_at timestamptz not null default now()
);

create table stock (
  sku text primary key,
  price numeric(10, 2) not null,
  qty int not null check (qty >= 0)
);

create table order_items (
  order_id bigint not null references orders on delete cascade,
  sku text not null references stock,
  qty int not null check (qty > 0),
  primary key (order_id, sku)
);

-- What is ordered leaves the stock; the check on stock.qty refuses what is not there, and with it the whole batch.
create function take_from_stock() returns trigger security definer set search_path = public language plpgsql as $$
begin
  update stock set qty = qty - new.qty where sku = new.sku;
  return new;
end
$$;
create trigger take_from_stock after insert on order_items for each row execute function take_from_stock();

-- Customers see and change what is theirs.
alter table customers enable row level security;
alter table orders enable row level security;
alter table order_items enable row level security;
create policy own on customers to shop_customer using (owner = caller()) with check (owner = caller());
create policy own on orders to shop_customer using (owner = caller()) with check (owner = caller());
create policy own on order_items to shop_customer using (exists (select from orders where id = order_id));

grant select on stock to shop_anonymous, shop_customer;
grant select, insert, update, delete on customers, orders, order_items to shop_customer;

insert into stock values ('apple', 0.30, 1000), ('pear', 0.45, 500), ('quince', 1.20, 3);
