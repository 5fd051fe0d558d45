-- One row for each metered call. It is the hold on the customer's credits, the entry of the call log
-- and the evidence at once; held is the only state that can change (see the guards).
create table calls (
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
    state text not null check (state in ('held', 'settled', 'refunded')),
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
create index calls_open on calls (expires_at) where state = 'held';
create index calls_by_key on calls (key_id, held_at);

-- Ended calls, counted by the UTC day (days since 1970-01-01) on which they began.
create table usage_daily (
    customer_id text not null,
    key_id text not null,
    day bigint not null,
    calls bigint not null,
    credits bigint not null,
    ok bigint not null,
    errors bigint not null,
    primary key (customer_id, key_id, day)
);

-- Ended calls, counted by endpoint and day: where an endpoint that keeps failing is found.
create table usage_routes (
    customer_id text not null,
    key_id text not null,
    day bigint not null,
    creator_id text not null,
    platform text not null,
    method text not null,
    route text not null,
    calls bigint not null,
    errors bigint not null,
    last_status bigint,
    last_at bigint not null,
    primary key (customer_id, key_id, day, creator_id, platform, method, route)
);

-- First answers to requests that carried an Idempotency-Key, sealed, for 24 hours.
create table idempotency (
    customer_id text not null,
    key_hash text not null,
    fingerprint text not null,
    call_id text not null,
    answer_state text not null check (answer_state in ('running', 'stored', 'not_stored', 'outcome_unknown')),
    status bigint,
    answer bytea,
    created_at bigint not null,
    expires_at bigint not null,
    primary key (customer_id, key_hash)
);
create index idempotency_by_expiry on idempotency (expires_at);

-- Catalogue routes that a platform answered with 200 at least once.
create table verified_routes (
    platform text not null,
    route text not null,
    verified_at bigint not null,
    primary key (platform, route)
);
