-- Refunds and disputes are counted against sales from now on.
create table reversals_of_sales (
    id text primary key,
    kind text not null check (kind in ('refund', 'dispute')),
    payment_id text not null references sales (id),
    customer_id text not null references customers (id),
    amount_cents bigint not null check (amount_cents >= 0),
    state text not null check (state in ('waiting', 'standing', 'undone')),
    created_at bigint not null,
    changed_at bigint not null
);
insert into reversals_of_sales
select id, kind, payment_id, customer_id, amount_cents, state, created_at, changed_at from reversals;
drop trigger reversals_are_kept;
drop table reversals;
alter table reversals_of_sales rename to reversals;
create index reversals_by_payment on reversals (payment_id);
create trigger reversals_are_kept before delete on reversals
begin
    select raise(abort, 'refunds and disputes are never deleted');
end;

drop trigger payments_are_append_only_update;
drop trigger payments_are_append_only_delete;
drop table payments;

create trigger sales_are_kept before delete on sales
begin
    select raise(abort, 'sales are never deleted');
end;
create trigger sales_keep_what_was_paid before update on sales
when old.id is not new.id or old.customer_id is not new.customer_id or old.intent_id is not new.intent_id
    or old.order_id is not new.order_id or old.amount_cents is not new.amount_cents
    or old.tax_cents is not new.tax_cents or old.currency is not new.currency
    or old.livemode is not new.livemode or old.sold_at is not new.sold_at or old.at is not new.at
begin
    select raise(abort, 'what was paid never changes');
end;
create trigger sale_parts_are_kept before delete on sale_parts
begin
    select raise(abort, 'sales are never deleted');
end;
create trigger lots_are_kept before delete on lots
begin
    select raise(abort, 'lots are never deleted');
end;
