-- A customer that the operator suspended also has `disabled_at`, so that every node refuses it, earlier versions too.
-- `suspended_at` says that it may come back, and why it was suspended. One that was erased never comes back: nothing
-- that identifies a person is left of it.
alter table customers add column suspended_at bigint;
alter table customers add column suspended_reason text;
alter table customers add column erased_at bigint;

-- What the operator decided about an unmatched payment. Null while it waits for a decision.
alter table unmatched_payments add column settled_at bigint;
alter table unmatched_payments add column settled_by text;
alter table unmatched_payments add column settlement text;

-- Nobody changes what the audit list says, except that the details of an erased customer's entries are emptied: they may
-- name addresses.
drop trigger audit_is_append_only_update;
create trigger audit_is_append_only_update before update on audit
when new.details <> '{"erased":true}' or old.id is not new.id or old.customer_id is not new.customer_id
    or old.at is not new.at or old.actor is not new.actor or old.action is not new.action
    or (select erased_at from customers where id = old.customer_id) is null
begin
    select raise(abort, 'the audit list is append only');
end;
