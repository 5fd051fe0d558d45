-- The guard of ended calls, as before, but that it undoes the whole transaction. For a guard that undoes one statement
-- SQLite keeps a copy of every page that the statement changes, for each end of a call.
drop trigger calls_end_once;
create trigger calls_end_once before update on calls
when old.state <> 'held'
begin
    select raise(rollback, 'an ended call never changes');
end;
