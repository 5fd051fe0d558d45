-- Nobody changes or removes what the audit list says.
create trigger audit_is_append_only before update or delete on audit
for each row execute function refuse_change('the audit list is append only');
