-- Lots: each grant of credits with its own end, and what became of each credit. Calls do not touch them: before a lot is
-- added, taken or expired, what was spent since is attributed. The checks are the last guard.
create table lots (
    id text primary key,
    customer_id text not null references customers (id),
    source text not null check (source in ('trial', 'gift', 'pack', 'top_up', 'plan', 'balance')),
    reference text,
    granted bigint not null check (granted >= 0),
    credits_left bigint not null check (credits_left >= 0),
    spent bigint not null check (spent >= 0),
    expired bigint not null check (expired >= 0),
    taken bigint not null check (taken >= 0),
    expires_at bigint,
    granted_at bigint not null,
    entries bigint not null,
    constraint lots_add_up check (granted = credits_left + spent + expired + taken)
);
create index lots_left on lots (customer_id) where credits_left > 0;
create index lots_by_customer on lots (customer_id, granted_at);
create index lots_due on lots (expires_at) where credits_left > 0 and expires_at is not null;

-- Which lot an entry of the ledger is about, what was owed after it, and its number among the customer's entries: times may
-- be equal. Nothing for entries of before there were lots, which come first.
alter table ledger add column lot_id text;
alter table ledger add column debt_after bigint;
alter table ledger add column place bigint;
create unique index ledger_by_place on ledger (customer_id, place) where place is not null;
create index ledger_by_lot on ledger (lot_id) where lot_id is not null;

-- What paid invoices and packs sold: one row for each payment intent of a pack and each paid invoice. Refunds and disputes
-- are counted against it. `reversed_cents` and `withdrawn_cents` change, the rest never does (see the guards).
create table sales (
    id text primary key,
    source text not null check (source in ('pi', 'invoice')),
    intent_id text unique,
    customer_id text not null references customers (id),
    order_id text unique references orders (id),
    subscription_id text,
    number text not null,
    amount_cents bigint not null,
    tax_cents bigint not null,
    currency text not null,
    livemode bigint not null,
    sold_at bigint not null,
    at bigint not null,
    reversed_cents bigint not null check (reversed_cents >= 0),
    withdrawn_cents bigint not null
);
create index sales_by_customer on sales (customer_id, at);
create index sales_by_day on sales (at);

-- The parts of a sale: what was sold of one thing, what it cost, and where its credits are. What shares a `pot` is undone
-- together, the latest sale first.
create table sale_parts (
    sale_id text not null references sales (id),
    place bigint not null,
    customer_id text not null references customers (id),
    kind text not null check (kind in ('plan', 'slot', 'pack', 'other')),
    pot text not null,
    money_cents bigint not null,
    credits bigint not null,
    taken bigint not null check (taken >= 0),
    credited_cents bigint not null check (credited_cents >= 0),
    lot_id text references lots (id),
    primary key (sale_id, place)
);
create index sale_parts_by_pot on sale_parts (pot);
create index sale_parts_by_lot on sale_parts (lot_id) where lot_id is not null;

-- The lines of a paid invoice, as they were read, and what each is for: a line of a plan brings the credits of its version
-- for the share of its period that it covers.
create table sale_lines (
    sale_id text not null references sales (id),
    place bigint not null,
    part bigint not null,
    price_id text,
    amount_cents bigint not null,
    discount_cents bigint not null,
    quantity bigint not null,
    starts_at bigint not null,
    ends_at bigint not null,
    is_proration bigint not null check (is_proration in (0, 1)),
    monthly_credits bigint not null,
    period_s bigint not null check (period_s > 0),
    primary key (sale_id, place)
);

-- Money of a sale that went back after it had been credited for slots, and was taken from the plan months that the
-- credit paid for.
create table sale_transfers (
    sale_id text not null references sales (id),
    pot text not null,
    customer_id text not null references customers (id),
    cents bigint not null check (cents >= 0),
    primary key (sale_id, pot)
);
create index sale_transfers_by_customer on sale_transfers (customer_id);

-- What a lowering of slots credited, once for each change.
create table slot_credits (
    change_id text primary key,
    customer_id text not null references customers (id),
    subscription_id text not null,
    period_end bigint not null,
    cents bigint not null
);

-- How many packs an order is for: automatic top-up buys as many at once as it needs.
alter table orders add column packs bigint not null default 1;

-- The balance of before there were lots becomes one lot without an end for each customer. Where staff had taken more than
-- was ever granted, that is written off first: it was never anybody's.
insert into ledger (id, customer_id, at, kind, amount, balance_after, source, source_id, reference)
select 'ent_' || substr(customer_id, 5), customer_id, 0, 'adjustment', removed - granted, available, 'adjustment',
       customer_id || ':opening', 'written off'
from customer_credits where granted < removed;
update customer_credits set debt = debt - (removed - granted), granted = removed where granted < removed;
insert into lots
    (id, customer_id, source, reference, granted, credits_left, spent, expired, taken, expires_at, granted_at, entries)
select 'lot_' || substr(c.customer_id, 5), c.customer_id, 'balance', null,
       c.granted - c.removed + coalesce(r.taken, 0), c.available, c.granted - c.removed - c.available, 0,
       coalesce(r.taken, 0), null, coalesce(l.at, 0), 0
from customer_credits c
left join (select customer_id, min(at) as at from ledger group by customer_id) l on l.customer_id = c.customer_id
left join (
    select customer_id, cast(sum(taken_credits - returned_credits) as bigint) as taken
    from reversals group by customer_id
) r on r.customer_id = c.customer_id
where c.granted > 0;

-- Payments become sales whose credits are in that lot. What was taken of them stays taken.
insert into sales
    (id, source, intent_id, customer_id, order_id, subscription_id, number, amount_cents, tax_cents, currency, livemode,
     sold_at, at, reversed_cents, withdrawn_cents)
select p.payment_id, p.source, p.intent_id, p.customer_id, p.order_id, null, '', p.amount_cents, 0, p.currency, p.livemode,
       p.at, p.at,
       coalesce((select sum(case when r.amount_cents > p.amount_cents then p.amount_cents else r.amount_cents end)
                 from reversals r where r.payment_id = p.payment_id and r.state = 'standing'), 0), 0
from payments p;
update sales set reversed_cents = amount_cents where reversed_cents > amount_cents;
insert into sale_parts
    (sale_id, place, customer_id, kind, pot, money_cents, credits, taken, credited_cents, lot_id)
select p.payment_id, 0, p.customer_id, case when p.source = 'pi' then 'pack' else 'plan' end, 'sale:' || p.payment_id,
       p.amount_cents, p.credits,
       coalesce((select sum(r.taken_credits - r.returned_credits) from reversals r where r.payment_id = p.payment_id), 0), 0,
       'lot_' || substr(p.customer_id, 5)
from payments p;
