-- Who a customer is at the payment processor. Made before the first payment and kept for history: one that the
-- processor has deleted stays, and a later one may take its place.
create table processor_customers (
    processor_customer_id text primary key,
    customer_id text not null references customers (id),
    created_at bigint not null,
    deleted_at bigint
);
create unique index processor_customers_current on processor_customers (customer_id)
    where deleted_at is null;
create index processor_customers_by_customer on processor_customers (customer_id);

-- Purchases of credit packs, each committed before the processor hears of it. Never deleted; what was agreed
-- (who, what, how much) never changes, and money that arrived is never forgotten (see the guards).
create table orders (
    id text primary key,
    customer_id text not null references customers (id),
    channel text not null check (channel in ('checkout', 'charge', 'top_up')),
    pack_id text not null,
    credits bigint not null check (credits > 0),
    amount_cents bigint not null check (amount_cents > 0),
    currency text not null,
    livemode bigint not null check (livemode in (0, 1)),
    processor_customer_id text not null references processor_customers (processor_customer_id),
    state text not null check (state in ('pending', 'paid', 'failed', 'expired', 'refunded')),
    session_id text unique,
    payment_id text unique,
    payment_method_id text,
    failure text,
    idempotency_hash text,
    created_at bigint not null,
    closed_at bigint,
    unique (customer_id, idempotency_hash),
    constraint orders_end_is_whole check (
        (state = 'pending' and closed_at is null)
        or (state in ('failed', 'expired') and closed_at is not null)
        or (state in ('paid', 'refunded') and closed_at is not null and payment_id is not null)
    )
);
create index orders_by_customer on orders (customer_id, created_at);
create index orders_pending on orders (created_at) where state = 'pending';
-- One click is one charge: whoever asks again for the same pack continues the open one.
create unique index orders_open_charge on orders (customer_id, pack_id)
    where channel = 'charge' and state = 'pending';

-- Money that was booked, one row for each payment intent or invoice: what refunds and disputes are counted
-- against. Append only (see the guards).
create table payments (
    payment_id text primary key,
    source text not null check (source in ('pi', 'invoice')),
    intent_id text unique,
    customer_id text not null references customers (id),
    order_id text unique references orders (id),
    amount_cents bigint not null,
    currency text not null,
    livemode bigint not null,
    credits bigint not null check (credits > 0),
    at bigint not null
);
create index payments_by_customer on payments (customer_id, at);

-- Refunds and disputes of payments, and the credits that each took and gave back. What a payment's rows have
-- taken in all never exceeds its credits (see `verify`). Never deleted.
create table reversals (
    id text primary key,
    kind text not null check (kind in ('refund', 'dispute')),
    payment_id text not null references payments (payment_id),
    customer_id text not null references customers (id),
    amount_cents bigint not null check (amount_cents >= 0),
    state text not null check (state in ('waiting', 'standing', 'undone')),
    taken_credits bigint not null check (taken_credits >= 0),
    returned_credits bigint not null check (returned_credits >= 0),
    created_at bigint not null,
    changed_at bigint not null
);
create index reversals_by_payment on reversals (payment_id);

-- Money of the processor's that was not booked, and why: somebody must look at it. One row for each object and
-- reason, however often it is seen.
create table unmatched_payments (
    object_id text not null,
    reason text not null,
    details text not null,
    times bigint not null,
    first_at bigint not null,
    last_at bigint not null,
    primary key (object_id, reason)
);

-- The card that is charged with one click or without the customer: what people recognise it by, never its number.
create table cards (
    customer_id text primary key references customers (id),
    payment_method_id text not null unique,
    brand text not null,
    last4 text not null,
    exp_month bigint not null,
    exp_year bigint not null,
    fingerprint text,
    saved_at bigint not null
);

-- Events of the processor, written down before they are acted on. Only what tells which object to read again is
-- kept, not their bodies; the job acts on what could not be acted on at once. Deleted after 90 days.
create table processor_events (
    id text primary key,
    kind text not null,
    object_id text,
    processor_customer_id text,
    api_version text,
    created_at bigint not null,
    received_at bigint not null,
    deliveries bigint not null,
    state text not null check (state in ('received', 'done', 'ignored', 'unmatched')),
    processed_at bigint,
    job_id text not null
);
create index processor_events_by_age on processor_events (received_at);
