-- Texts are compared byte by byte, as on SQLite and in the program. Most are ids. By the rules of the language that a
-- database is created with, each comparison costs several times as much, lists have another order on each server, and
-- an index breaks when the system's library changes those rules. Nothing is stored anew; the indexes are built again.
-- What stands on a column (a view, a trigger's condition) is taken away while its column changes, and made again as it was.
--
-- Nodes that run meanwhile have prepared statements whose results would be of another type from now on, which PostgreSQL
-- refuses for as long as a connection lasts. So their connections end, before (a transaction under way would wait for
-- this one, and this one for it) and after; they connect again, and prepare anew once this is committed. Who waits for
-- his turn to migrate has nothing prepared. A new database, without customers, has no nodes to think of.
do $$
declare
    schema regnamespace := current_schema()::regnamespace;
    make_again text[];
    statement text;
begin
    if exists (select from customers) then
        perform pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and usename = current_user and application_name = 'creator-gateway'
            and pid <> pg_backend_pid() and wait_event is distinct from 'advisory';
        lock table calls in access exclusive mode;
    end if;
    select array(
        select format('create view %s as %s', c.oid::regclass, pg_get_viewdef(c.oid))
        from pg_class c where c.relnamespace = schema and c.relkind = 'v'
        union all
        select pg_get_triggerdef(t.oid)
        from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = schema and not t.tgisinternal and t.tgqual is not null
    ) into make_again;
    for statement in
        select format('drop view %s', c.oid::regclass)
        from pg_class c where c.relnamespace = schema and c.relkind = 'v'
        union all
        select format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass)
        from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = schema and not t.tgisinternal and t.tgqual is not null
    loop
        execute statement;
    end loop;
    for statement in
        select format('alter table %s %s', c.oid::regclass,
            string_agg(format('alter column %I type text collate "C"', a.attname), ', ' order by a.attnum))
        from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = schema and c.relkind = 'r' and c.relname <> '_sqlx_migrations'
            and a.atttypid = 'text'::regtype and a.attnum > 0 and not a.attisdropped
        group by c.oid
    loop
        execute statement;
    end loop;
    foreach statement in array make_again loop
        execute statement;
    end loop;
    if exists (select from customers) then
        -- What is seen of others is otherwise kept from the first look.
        perform pg_stat_clear_snapshot();
        perform pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and usename = current_user and application_name = 'creator-gateway'
            and pid <> pg_backend_pid() and wait_event is distinct from 'advisory';
    end if;
end
$$;
