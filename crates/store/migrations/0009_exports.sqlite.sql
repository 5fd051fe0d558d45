-- What an export cost is decided once.
create trigger export_jobs_charged_once before update on export_jobs
when old.credit_state <> 'held' and new.credit_state <> old.credit_state
begin
    select raise(abort, 'the credits of an ended export never change');
end;

-- The books need every export.
create trigger export_jobs_stay before delete on export_jobs
begin
    select raise(abort, 'exports are never removed from the books');
end;
