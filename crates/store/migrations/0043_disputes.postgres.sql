-- Disputes and warnings of fraud, as the payment processor last showed them: what the operator must know and do. What they
-- took of credits is in `reversals`. Never deleted.
create table disputes (
    -- The id of the dispute or the warning at the processor.
    id text collate "C" primary key,
    -- Where it stands; it only moves on.
    stage text collate "C" not null,
    -- The processor's own word for it.
    status text collate "C" not null,
    -- Who paid; null while that is not known.
    customer_id text collate "C" references customers (id),
    charge_id text collate "C",
    intent_id text collate "C",
    amount_cents bigint not null,
    currency text collate "C" not null,
    -- The bank's reason, or the kind of fraud that it warns of.
    reason text collate "C" not null,
    -- Until when evidence is taken; null where none is asked for.
    due_by bigint,
    -- When it began at the processor.
    opened_at bigint not null,
    changed_at bigint not null
);
create index disputes_by_time on disputes (opened_at);
create index disputes_by_customer on disputes (customer_id);
create index disputes_by_charge on disputes (charge_id);

-- Prices at the processor that are not what the configuration sells: what has one here is not for sale. A row goes when the
-- price is right again.
create table price_faults (
    -- What is sold at it, such as `pack:pack_10`.
    subject text collate "C" not null,
    -- The price's id in the configuration, or the word that it is found by.
    price_ref text collate "C" not null,
    price_id text collate "C" not null,
    -- What is wrong, for people.
    fault text collate "C" not null,
    found_at bigint not null,
    primary key (subject, price_ref)
);

-- Invoices are found by the number that is on them.
create index invoices_by_number on invoices (number);
