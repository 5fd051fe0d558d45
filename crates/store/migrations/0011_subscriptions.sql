-- The subscription of a customer as the payment processor last showed it: one row, of the one that counts. The
-- version grows each time the processor's state is written down, so that who has read an older state writes nothing.
-- Never built from events.
create table subscriptions (
    customer_id text primary key references customers (id),
    version bigint not null,
    subscription_id text,
    status text not null check (status in (
        'none', 'incomplete', 'trialing', 'active', 'past_due', 'canceled', 'unpaid', 'paused'
    )),
    period_start bigint,
    period_end bigint,
    cancels_at bigint,
    synced_at bigint not null
);
create index subscriptions_by_id on subscriptions (subscription_id);

-- What is paid for in it: its plan, slots of a platform, and whatever else an operator has put into it.
create table subscription_items (
    customer_id text not null references subscriptions (customer_id),
    item_id text not null,
    price_id text not null,
    kind text not null check (kind in ('plan', 'slot', 'other')),
    plan_id text,
    platform text,
    quantity bigint not null check (quantity >= 0),
    primary key (customer_id, item_id)
);

-- Changes of slots or of the plan, each committed before the processor hears of it; its id is the processor's
-- idempotency key. One is open for each customer; who holds its lease carries it out. Never deleted.
create table slot_changes (
    id text primary key,
    customer_id text not null references customers (id),
    kind text not null check (kind in ('raise', 'lower', 'switch', 'plan')),
    subscription_id text not null,
    creator_id text,
    charged_at_once bigint not null check (charged_at_once in (0, 1)),
    proration_date bigint not null,
    actor text not null,
    state text not null check (state in ('open', 'applied', 'failed')),
    failure text,
    decline_code text,
    attempts bigint not null,
    leased_until bigint not null,
    created_at bigint not null,
    closed_at bigint,
    constraint slot_changes_end_is_whole check ((state = 'open') = (closed_at is null))
);
create unique index slot_changes_open on slot_changes (customer_id) where state = 'open';
create index slot_changes_left on slot_changes (leased_until) where state = 'open';
create index slot_changes_by_customer on slot_changes (customer_id, created_at);

-- What a change makes of the items of the subscription, in the order in which the processor is told. Without an item
-- id the item is new. The plan's own item has no platform.
create table slot_change_items (
    change_id text not null references slot_changes (id),
    place bigint not null,
    platform text,
    plan_id text,
    item_id text,
    price_id text not null,
    count_before bigint not null check (count_before >= 0),
    count_after bigint not null check (count_after >= 0),
    primary key (change_id, place)
);

-- What a change was last said to cost, and for which instant: a change made soon afterwards is counted from there.
create table slot_previews (
    customer_id text not null references customers (id),
    platform text not null,
    slots bigint not null,
    proration_date bigint not null,
    made_at bigint not null,
    primary key (customer_id, platform)
);

-- Offers to subscribe on the processor's page. One is open for each customer, so that no two are paid.
create table subscription_offers (
    id text primary key,
    customer_id text not null references customers (id),
    plan_id text not null,
    slots text not null,
    session_id text,
    created_at bigint not null,
    closed_at bigint
);
create unique index subscription_offers_open on subscription_offers (customer_id)
    where closed_at is null;

-- Failed payments of invoices that the customer was told of, so that it is told once of each.
create table invoice_notices (
    invoice_id text not null,
    attempt bigint not null,
    customer_id text not null references customers (id),
    told_at bigint not null,
    primary key (invoice_id, attempt)
);
