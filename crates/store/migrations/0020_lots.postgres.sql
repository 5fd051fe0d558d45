-- Refunds and disputes are counted against sales from now on.
alter table reversals drop constraint reversals_payment_id_fkey;
alter table reversals add constraint reversals_payment_id_fkey foreign key (payment_id) references sales (id);
alter table reversals drop column taken_credits, drop column returned_credits;
drop table payments;

-- Every text is compared byte by byte, as in the other tables.
do $$
declare
    statement text;
begin
    for statement in
        select format('alter table %s %s', c.oid::regclass,
            string_agg(format('alter column %I type text collate "C"', a.attname), ', ' order by a.attnum))
        from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r'
            and c.relname in ('lots', 'sales', 'sale_parts', 'sale_lines', 'sale_transfers', 'slot_credits', 'ledger')
            and a.atttypid = 'text'::regtype and a.attcollation <> '"C"'::regcollation and a.attnum > 0
            and not a.attisdropped
        group by c.oid
    loop
        execute statement;
    end loop;
end
$$;

create trigger sales_are_kept before delete on sales
for each row execute function refuse_change('sales are never deleted');
create trigger sales_keep_what_was_paid before update on sales
for each row when (
    (old.id, old.customer_id, old.intent_id, old.order_id, old.amount_cents, old.tax_cents, old.currency, old.livemode,
     old.sold_at, old.at)
    is distinct from
    (new.id, new.customer_id, new.intent_id, new.order_id, new.amount_cents, new.tax_cents, new.currency, new.livemode,
     new.sold_at, new.at)
)
execute function refuse_change('what was paid never changes');
create trigger sale_parts_are_kept before delete on sale_parts
for each row execute function refuse_change('sales are never deleted');
create trigger lots_are_kept before delete on lots
for each row execute function refuse_change('lots are never deleted');
