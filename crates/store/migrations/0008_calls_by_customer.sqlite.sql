-- SQLite builds a table for a list of three words each time it checks a row against it, which was half of what a
-- call's row cost. The same check, written as alternatives, costs nothing worth mentioning. A check can only be
-- changed together with its table.
create table calls_checked (
    id text primary key,
    customer_id text not null,
    key_id text not null,
    creator_id text not null,
    platform text not null,
    method text not null,
    path text not null,
    route text not null,
    cost bigint not null check (cost >= 0),
    credits bigint,
    state text not null check (state = 'held' or state = 'settled' or state = 'refunded'),
    outcome text,
    status bigint,
    request_id text not null,
    node_id text not null,
    epoch bigint not null,
    held_at bigint not null,
    expires_at bigint not null,
    resolved_at bigint,
    duration_ms bigint,
    upstream_ms bigint,
    idempotency_hash text,
    constraint calls_end_is_whole check (
        (state = 'held' and resolved_at is null and credits is null and outcome is null)
        or (state = 'settled' and resolved_at is not null and credits = cost and outcome is not null)
        or (state = 'refunded' and resolved_at is not null and credits = 0 and outcome is not null)
    )
);
insert into calls_checked select * from calls;
drop table calls;
alter table calls_checked rename to calls;
create index calls_open on calls (expires_at) where state = 'held';
create index calls_by_customer on calls (customer_id, held_at, key_id);
create trigger calls_end_once before update on calls
when old.state <> 'held'
begin
    select raise(abort, 'an ended call never changes');
end;
