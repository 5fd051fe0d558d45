-- What was written for good stays as it was written.
create trigger calls_end_once before update on calls
when old.state <> 'held'
begin
    select raise(abort, 'an ended call never changes');
end;

create trigger ledger_is_append_only_update before update on ledger
begin
    select raise(abort, 'the ledger is append only');
end;

create trigger ledger_is_append_only_delete before delete on ledger
begin
    select raise(abort, 'the ledger is append only');
end;
