-- What was agreed and what was paid stays as it was written.
create trigger orders_are_kept before delete on orders
begin
    select raise(abort, 'orders are never deleted');
end;

create trigger orders_keep_what_was_agreed before update on orders
when old.id is not new.id or old.customer_id is not new.customer_id or old.channel is not new.channel
    or old.pack_id is not new.pack_id or old.credits is not new.credits
    or old.amount_cents is not new.amount_cents or old.currency is not new.currency
    or old.livemode is not new.livemode
    or old.processor_customer_id is not new.processor_customer_id
    or old.payment_method_id is not new.payment_method_id or old.created_at is not new.created_at
begin
    select raise(abort, 'what was ordered never changes');
end;

create trigger orders_keep_what_was_paid before update on orders
when old.state in ('paid', 'refunded')
    and (new.state not in ('paid', 'refunded') or old.payment_id is not new.payment_id)
begin
    select raise(abort, 'a paid order stays paid');
end;

create trigger payments_are_append_only_update before update on payments
begin
    select raise(abort, 'payments are append only');
end;

create trigger payments_are_append_only_delete before delete on payments
begin
    select raise(abort, 'payments are append only');
end;

create trigger reversals_are_kept before delete on reversals
begin
    select raise(abort, 'refunds and disputes are never deleted');
end;
