-- What customers asked of automatic top-up, and what keeps it in bounds. One row for each that ever turned it on.
create table top_up_settings (
    customer_id text primary key references customers (id),
    enabled bigint not null check (enabled in (0, 1)),
    threshold_credits bigint not null check (threshold_credits > 0),
    pack_id text not null,
    daily_cap_cents bigint not null check (daily_cap_cents > 0),
    declines_in_row bigint not null check (declines_in_row >= 0),
    next_attempt_at bigint not null,
    stopped_reason text,
    changed_at bigint not null
);
create index top_up_settings_enabled on top_up_settings (next_attempt_at) where enabled = 1;

-- Automatic charges, each with its order and committed with it before the processor hears of it. `cap_cents` is the
-- daily cap as it was then. Never deleted.
create table top_ups (
    order_id text primary key references orders (id),
    customer_id text not null references customers (id),
    day bigint not null,
    cents bigint not null check (cents > 0),
    cap_cents bigint not null,
    state text not null check (state in ('claimed', 'requires_action', 'succeeded', 'failed')),
    intent_id text,
    failure text,
    claimed_at bigint not null,
    leased_until bigint not null,
    closed_at bigint,
    constraint top_ups_end_is_whole check ((closed_at is null) = (state in ('claimed', 'requires_action')))
);
-- Never two at once for a customer, on however many nodes.
create unique index top_ups_open on top_ups (customer_id) where state in ('claimed', 'requires_action');
create index top_ups_by_day on top_ups (customer_id, day);
create index top_ups_left on top_ups (leased_until) where state = 'claimed';
