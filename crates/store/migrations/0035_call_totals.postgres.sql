-- Calls that ended long ago, summed up: retention adds them here and deletes their rows in one transaction, so that both
-- tables together always have every ended call once. A call is counted on the UTC day on which it began.
create table call_totals (
    customer_id text collate "C" not null,
    day bigint not null,
    key_id text collate "C" not null,
    creator_id text collate "C" not null,
    platform text collate "C" not null,
    method text collate "C" not null,
    route text collate "C" not null,
    -- Empty for calls without a tag.
    tag text collate "C" not null,
    outcome text collate "C" not null,
    calls bigint not null check (calls > 0),
    credits bigint not null check (credits >= 0),
    -- Charged calls with a status below 400.
    ok bigint not null check (ok >= 0 and ok <= calls),
    primary key (customer_id, day, key_id, creator_id, platform, method, route, tag, outcome)
);
