-- Nobody changes or removes what the audit list says.
create trigger audit_is_append_only_update before update on audit
begin
    select raise(abort, 'the audit list is append only');
end;

create trigger audit_is_append_only_delete before delete on audit
begin
    select raise(abort, 'the audit list is append only');
end;
