-- The order for `pgbench -M prepared`: the statements of the hand-written endpoint, one after the
-- other, without HTTP, JSON and Node.
\set caller random(0, 99)
begin;
select
  set_config('role', 'oneflight_bench_user', true),
  set_config('request.jwt.claims',
    '{"role":"oneflight_bench_user","sub":"caller-' || :caller || '"}', true);
insert into customers (name) values ('Corner Shop') returning id as customer \gset
insert into orders (customer_id) values (:customer) returning id as made \gset
insert into order_items (order_id, sku, qty, price) values
  (:made, 'apple', 4, 0.30), (:made, 'pear', 1, 0.45), (:made, 'quince', 2, 1.20);
update orders set status = 'paid' where id = :made;
select * from order_items where order_id = :made;
commit;
