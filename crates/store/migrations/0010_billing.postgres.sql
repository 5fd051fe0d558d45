-- What was agreed and what was paid stays as it was written.
create trigger orders_are_kept before delete on orders
for each row execute function refuse_change('orders are never deleted');

create trigger orders_keep_what_was_agreed before update on orders
for each row when (
    (old.id, old.customer_id, old.channel, old.pack_id, old.credits, old.amount_cents, old.currency,
     old.livemode, old.processor_customer_id, old.payment_method_id, old.created_at)
    is distinct from
    (new.id, new.customer_id, new.channel, new.pack_id, new.credits, new.amount_cents, new.currency,
     new.livemode, new.processor_customer_id, new.payment_method_id, new.created_at)
)
execute function refuse_change('what was ordered never changes');

create trigger orders_keep_what_was_paid before update on orders
for each row when (
    old.state in ('paid', 'refunded')
    and (new.state not in ('paid', 'refunded') or old.payment_id is distinct from new.payment_id)
)
execute function refuse_change('a paid order stays paid');

create trigger payments_are_append_only before update or delete on payments
for each row execute function refuse_change('payments are append only');

create trigger reversals_are_kept before delete on reversals
for each row execute function refuse_change('refunds and disputes are never deleted');
