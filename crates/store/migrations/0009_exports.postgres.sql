-- What an export cost is decided once.
create trigger export_jobs_charged_once before update on export_jobs
for each row when (old.credit_state <> 'held' and new.credit_state <> old.credit_state)
execute function refuse_change('the credits of an ended export never change');

-- The books need every export.
create trigger export_jobs_stay before delete on export_jobs
for each row execute function refuse_change('exports are never removed from the books');
