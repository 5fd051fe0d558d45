-- One row for each export. It is the hold on the customer's credits, the job and the record at once. Rows stay for
-- the books; a deleted one keeps nothing of what was asked for. `lease_token` grows with every claim and fences what
-- an earlier holder still wants to write; a lease counts until `lease_until`. `attempt` counts the claims since the
-- last page that nobody had read before. `cleanup_due_at` is the outbox of the storage: set in the transaction that
-- ends a job or takes its output away, cleared when nothing is left there but the output.
create table export_jobs (
    id text primary key,
    customer_id text not null references customers (id),
    key_id text not null,
    creator_id text not null,
    platform text not null,
    dataset text not null,
    format text not null,
    params text not null,
    start_date text,
    end_date text,
    max_rows bigint check (max_rows is null or max_rows >= 1),
    cost bigint not null check (cost >= 0),
    credit_state text not null check (credit_state = 'held' or credit_state = 'settled' or credit_state = 'refunded'),
    state text not null check (state in (
        'pending', 'running', 'cancelling', 'completed', 'failed', 'cancelled', 'expired', 'deleted'
    )),
    created_at bigint not null,
    started_at bigint,
    finished_at bigint,
    expires_at bigint,
    lease_token bigint not null default 0,
    lease_until bigint,
    leased_by text,
    attempt bigint not null default 0,
    pages bigint not null default 0,
    rows_read bigint not null default 0,
    worked_micros bigint not null default 0,
    output_key text,
    sha256 text,
    bytes bigint,
    rows bigint,
    error_code text,
    error_message text,
    cleanup_due_at bigint,
    constraint export_jobs_held_while_open check (
        (credit_state = 'held') = (state in ('pending', 'running', 'cancelling'))
    ),
    constraint export_jobs_charged_when_completed check (
        state not in ('completed', 'expired') or credit_state = 'settled'
    ),
    constraint export_jobs_free_when_failed check (state <> 'failed' or credit_state = 'refunded'),
    constraint export_jobs_output_is_whole check (
        (state = 'completed' and output_key is not null and sha256 is not null and bytes is not null
            and rows is not null and expires_at is not null)
        or (state <> 'completed' and output_key is null)
    ),
    constraint export_jobs_leased_while_worked_on check (
        state not in ('running', 'cancelling') or (lease_until is not null and leased_by is not null)
    )
);
create index export_jobs_by_customer on export_jobs (customer_id, created_at);
create index export_jobs_by_account on export_jobs (customer_id, creator_id, created_at);
create index export_jobs_open on export_jobs (created_at) where credit_state = 'held';
create index export_jobs_cleanup on export_jobs (cleanup_due_at) where cleanup_due_at is not null;
create index export_jobs_expiry on export_jobs (expires_at) where state = 'completed';
