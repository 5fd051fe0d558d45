-- Work that is written in the transaction that makes it necessary and carried out afterwards, by any node, at
-- least once. A done job is deleted. `attempts` counts the claims and is the fencing number: only the newest
-- claim may end or postpone the job. A job is free when nobody holds it, or when its lease is over.
create table jobs (
    id text primary key,
    kind text not null,
    payload text not null,
    created_at bigint not null,
    run_at bigint not null,
    attempts bigint not null,
    leased_until bigint,
    leased_by text,
    last_error text,
    given_up_at bigint
);
create index jobs_due on jobs (run_at) where given_up_at is null;
