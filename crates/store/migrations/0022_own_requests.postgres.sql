-- Requests to the service's own routes that came with an Idempotency-Key: who runs one, and its first response. Each key of
-- a customer has its own Idempotency-Keys (caller is the key's id), all sessions of a customer share theirs (caller is
-- 'session'). A row lives 24 hours.
create table own_requests (
    customer_id text collate "C" not null,
    caller text collate "C" not null,
    -- SHA-256 of the Idempotency-Key.
    key_hash text collate "C" not null,
    -- The method and the template of the route, for operators.
    operation text collate "C" not null,
    -- HMAC of method, path, query, content type and body under the data key, so that a short secret in a body cannot be
    -- guessed from it.
    fingerprint text collate "C" not null,
    data_key_id text collate "C" not null,
    -- The attempt that runs it, or ran it last: only that one writes its end.
    run_id text collate "C" not null,
    -- The id that a change of slots or of the plan gets which this request makes, in whichever attempt.
    change_id text collate "C" not null,
    state text collate "C" not null check (state in ('running', 'stored', 'not_stored', 'outcome_unknown')),
    -- A running request whose lease is over has lost its node.
    leased_until bigint not null,
    -- A hash of what the caller could do when it ended: whoever can do something else does not get the response.
    permissions text collate "C",
    status bigint,
    answer bytea,
    created_at bigint not null,
    expires_at bigint not null,
    primary key (customer_id, caller, key_hash),
    constraint own_requests_answer check ((state = 'stored') = (answer is not null and status is not null))
);
create index own_requests_by_expiry on own_requests (expires_at);
