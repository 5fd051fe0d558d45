-- What was written for good stays as it was written.
create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '%', tg_argv[0];
end
$$;

create trigger calls_end_once before update on calls
for each row when (old.state <> 'held')
execute function refuse_change('an ended call never changes');

create trigger ledger_is_append_only before update or delete on ledger
for each row execute function refuse_change('the ledger is append only');
