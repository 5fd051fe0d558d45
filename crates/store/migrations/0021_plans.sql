-- What each price of the processor's sells: one version of a plan, written down when the price is first seen, and
-- never changed or deleted. Subscribers keep their version when the offer changes.
create table plan_versions (
    price_id text primary key,
    plan_id text not null,
    price_cents bigint not null check (price_cents >= 0),
    monthly_credits bigint not null check (monthly_credits >= 0),
    accounts text not null,
    seen_at bigint not null
);

-- The plan that is paid for, as the lines of the period's invoices say, and until when; the item's price is the one of
-- the next period. Read again when there is another latest invoice.
alter table subscriptions add column paid_price_id text;
alter table subscriptions add column paid_until bigint;
alter table subscriptions add column latest_invoice_id text;

-- Whether a change moves no money now: a plan that begins with the next period, slots of a time that is not paid.
alter table slot_changes add column moves_no_money bigint not null default 0
    check (moves_no_money in (0, 1));
-- Which of its requests a change has come to. An upgrade while a cheaper plan is pending first takes that one back,
-- and puts it there again if the upgrade is declined.
alter table slot_changes add column step text not null default 'change'
    check (step in ('take_back', 'change', 'restore'));
-- The period that the change is made in, the invoice that was paid for it, and what was charged.
alter table slot_changes add column period_end bigint;
alter table slot_changes add column invoice_id text;
alter table slot_changes add column charged_cents bigint;
-- What a lowering credited on the next invoice, in cents: null until it was read, which happens once.
alter table slot_changes add column credited_cents bigint;
create index slot_changes_to_credit on slot_changes (closed_at)
    where state = 'applied' and kind = 'lower' and moves_no_money = 0 and credited_cents is null;
-- Plans: the price that the item had before, and the one that was paid for.
alter table slot_change_items add column price_before text;
alter table slot_change_items add column paid_price_id text;

-- Pending invoice items of the processor's that were counted as the credit of a lowering, so that none counts twice.
create table slot_credit_items (
    invoice_item_id text primary key,
    change_id text not null references slot_changes (id)
);

-- What a customer was last told a change would cost, and for which instant: the same change made soon afterwards is
-- counted from there. One for each subject (slots of a platform, a switch, the plan). Takes the place of slot_previews.
create table change_previews (
    customer_id text not null references customers (id),
    subject text not null,
    wanted text not null,
    proration_date bigint not null,
    made_at bigint not null,
    primary key (customer_id, subject)
);

-- Subscriptions that have ended. While settled_at is null they may have invoices that nobody will pay: those are voided.
create table ended_subscriptions (
    subscription_id text primary key,
    customer_id text not null references customers (id),
    processor_customer text not null,
    seen_at bigint not null,
    settled_at bigint
);
create index ended_subscriptions_open on ended_subscriptions (seen_at) where settled_at is null;

-- Invoices that are voided because their subscription has ended, each written down before the processor is asked, with
-- the credit among their lines that the customer gets back. done_at: the processor has given it back.
create table voided_invoices (
    invoice_id text primary key,
    subscription_id text not null references ended_subscriptions (subscription_id),
    customer_id text not null references customers (id),
    returned_cents bigint not null check (returned_cents >= 0),
    created_at bigint not null,
    done_at bigint
);
