-- Nobody changes what the audit list says, and nobody removes an entry before its time is over: `audit_kept_since` in
-- `settings` (microseconds since 1970-01-01) says from when on entries are kept. Only retention moves it, and never back.
create function refuse_audit_removal() returns trigger language plpgsql as $$
begin
    if old.at < (select value::bigint from settings where name = 'audit_kept_since') then
        return old;
    end if;
    raise exception 'the audit list is append only';
end
$$;
drop trigger audit_is_append_only_delete on audit;
create trigger audit_is_append_only_delete before delete on audit
for each row execute function refuse_audit_removal();
