-- Nobody changes what the audit list says, and nobody removes an entry before its time is over: `audit_kept_since` in
-- `settings` (microseconds since 1970-01-01) says from when on entries are kept. Only retention moves it, and never back.
drop trigger audit_is_append_only_delete;
create trigger audit_is_append_only_delete before delete on audit
when old.at >= coalesce((select cast(value as integer) from settings where name = 'audit_kept_since'), old.at)
begin
    select raise(abort, 'the audit list is append only');
end;
