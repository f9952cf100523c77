-- The sample schema of `npm run dev` and compose.yaml: a small shop with roles and row-level
-- security. Run it once, as superuser, in an empty database.

-- The service logs in as `oneflight`. This role has no privileges; each batch takes the role of its
-- token.
do $$
begin
  if to_regrole('oneflight') is null then
    create role oneflight login noinherit password 'oneflight';
  end if;
  if to_regrole('shop_anonymous') is null then
    create role shop_anonymous nologin;
    create role shop_customer nologin;
    grant shop_anonymous, shop_customer to oneflight;
  end if;
end
$$;

-- The caller: the claim `sub` of the token.
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

-- Subtracts ordered items from the stock. If too few are left, the check on stock.qty fails the
-- batch.
create function take_from_stock() returns trigger
  security definer set search_path = public language plpgsql as $$
begin
  update stock set qty = qty - new.qty where sku = new.sku;
  return new;
end
$$;
create trigger take_from_stock after insert on order_items
  for each row execute function take_from_stock();

-- Tables of the batches in examples/.
create table accounts (
  name text,
  balance numeric(12, 2) not null default 0,
  owner text not null default caller(),
  primary key (owner, name)
);

create table transfers (
  id bigint generated always as identity primary key,
  source text not null,
  target text not null,
  amount numeric(12, 2) not null check (amount > 0),
  owner text not null default caller(),
  foreign key (owner, source) references accounts (owner, name),
  foreign key (owner, target) references accounts (owner, name)
);

create table tags (
  id bigint generated always as identity primary key,
  name text not null,
  owner text not null default caller(),
  unique (owner, name)
);

create table offers (
  sku text references stock,
  price numeric(10, 2) not null,
  version int not null default 1,
  owner text not null default caller(),
  primary key (owner, sku)
);

create table jobs (
  id bigint generated always as identity primary key,
  task jsonb not null,
  state text not null default 'ready' check (state in ('ready', 'running', 'done')),
  attempts int not null default 0,
  started_at timestamptz,
  owner text not null default caller()
);

create table cart_items (
  sku text references stock,
  qty int not null check (qty > 0),
  owner text not null default caller(),
  primary key (owner, sku)
);

-- What a customer has on its own shelves.
create table inventory (
  sku text references stock,
  qty int not null default 0,
  owner text not null default caller(),
  primary key (owner, sku)
);

create function order_total(id bigint) returns numeric stable language sql
  return (select sum(i.qty * s.price) from order_items i join stock s on s.sku = i.sku
    where i.order_id = order_total.id);

-- Customers see and change only their own rows.
alter table customers enable row level security;
alter table orders enable row level security;
alter table order_items enable row level security;
alter table accounts enable row level security;
alter table transfers enable row level security;
alter table tags enable row level security;
alter table offers enable row level security;
alter table jobs enable row level security;
alter table cart_items enable row level security;
alter table inventory enable row level security;
create policy own on customers to shop_customer
  using (owner = caller()) with check (owner = caller());
create policy own on orders to shop_customer
  using (owner = caller()) with check (owner = caller());
create policy own on order_items to shop_customer
  using (exists (select from orders where id = order_id));
create policy own on accounts to shop_customer
  using (owner = caller()) with check (owner = caller());
create policy own on transfers to shop_customer
  using (owner = caller()) with check (owner = caller());
create policy own on tags to shop_customer
  using (owner = caller()) with check (owner = caller());
create policy own on offers to shop_customer
  using (owner = caller()) with check (owner = caller());
create policy own on jobs to shop_customer
  using (owner = caller()) with check (owner = caller());
create policy own on cart_items to shop_customer
  using (owner = caller()) with check (owner = caller());
create policy own on inventory to shop_customer
  using (owner = caller()) with check (owner = caller());

grant select on stock to shop_anonymous, shop_customer;
grant select, insert, update, delete
  on customers, orders, order_items, accounts, transfers, tags, offers, jobs, cart_items, inventory
  to shop_customer;

insert into stock values ('apple', 0.30, 1000), ('pear', 0.45, 500), ('quince', 1.20, 3);
-- The caller `corner-shop` has a customer with a paid order, and two accounts.
insert into customers (name, owner) values ('Corner Shop', 'corner-shop');
insert into orders (customer_id, status, owner) values (1, 'paid', 'corner-shop');
insert into order_items values (1, 'apple', 4), (1, 'pear', 1);
insert into accounts (name, balance, owner) values
  ('bank', 0, 'corner-shop'), ('till', 100, 'corner-shop');
insert into offers (sku, price, owner) values ('apple', 0.35, 'corner-shop');
insert into jobs (task, owner) values
  ('{"print": "label", "order": 1}', 'corner-shop'),
  ('{"mail": "invoice", "order": 1}', 'corner-shop'),
  ('{"mail": "thanks", "order": 1}', 'corner-shop');
insert into cart_items (sku, qty, owner) values
  ('apple', 5, 'corner-shop'), ('pear', 2, 'corner-shop');
insert into inventory (sku, qty, owner) values
  ('apple', 1, 'corner-shop'), ('pear', 0, 'corner-shop'), ('quince', 1, 'corner-shop');
