-- A customer that the operator suspended also has `disabled_at`, so that every node refuses it, earlier versions too.
-- `suspended_at` says that it may come back, and why it was suspended. One that was erased never comes back: nothing
-- that identifies a person is left of it.
alter table customers add column suspended_at bigint;
alter table customers add column suspended_reason text collate "C";
alter table customers add column erased_at bigint;

-- What the operator decided about an unmatched payment. Null while it waits for a decision.
alter table unmatched_payments add column settled_at bigint;
alter table unmatched_payments add column settled_by text collate "C";
alter table unmatched_payments add column settlement text collate "C";

-- Nobody changes what the audit list says, except that the details of an erased customer's entries are emptied: they may
-- name addresses.
create function refuse_audit_change() returns trigger language plpgsql as $$
begin
    if new.details = '{"erased":true}' and old.id = new.id and old.customer_id = new.customer_id and old.at = new.at
        and old.actor = new.actor and old.action = new.action
        and (select erased_at from customers where id = old.customer_id) is not null then
        return new;
    end if;
    raise exception 'the audit list is append only';
end
$$;
drop trigger audit_is_append_only on audit;
create trigger audit_is_append_only_delete before delete on audit
for each row execute function refuse_change('the audit list is append only');
create trigger audit_is_append_only_update before update on audit
for each row execute function refuse_audit_change();
