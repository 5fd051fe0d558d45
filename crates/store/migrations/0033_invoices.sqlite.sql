-- Invoices as the processor last showed them, as far as they are for something of ours: plans, slots and packs. Drafts are
-- not here. Amounts are in the smallest unit of the currency.
create table invoices (
    -- The invoice's id at the processor.
    id text primary key,
    customer_id text not null references customers (id),
    -- The number for people.
    number text not null,
    state text not null,
    -- The processor's word for why it was made, such as `subscription_cycle`.
    reason text not null,
    subscription_id text,
    -- The order of an invoice for a pack.
    order_id text,
    currency text not null,
    -- Before discounts and tax.
    subtotal_cents bigint not null,
    discount_cents bigint not null,
    tax_cents bigint not null,
    total_cents bigint not null,
    -- What was to be charged: the total, changed by the customer's balance at the processor.
    due_cents bigint not null,
    paid_cents bigint not null,
    -- The processor's page, and the document; both addresses work for a limited time.
    hosted_url text,
    pdf_url text,
    created_at bigint not null,
    paid_at bigint,
    -- When it was last read from the processor.
    read_at bigint not null
);
-- The list of a customer, newest first; numbers order those of one second.
create index invoices_list on invoices (customer_id, created_at, number, id);
create index invoices_of_order on invoices (order_id) where order_id is not null;

-- The lines of invoices; they never change.
create table invoice_lines (
    invoice_id text not null references invoices (id),
    place bigint not null,
    -- `plan`, `slot`, `pack` or `other`, and which plan, platform or pack.
    kind text not null,
    reference text,
    description text not null,
    quantity bigint not null,
    -- Before discounts and tax; negative for what is given back.
    amount_cents bigint not null,
    discount_cents bigint not null,
    tax_cents bigint not null,
    starts_at bigint not null,
    ends_at bigint not null,
    is_proration bigint not null,
    primary key (invoice_id, place)
);

-- When a customer's invoices were last listed at the processor; no request lists them again for some time.
create table invoice_reads (
    customer_id text primary key references customers (id),
    read_at bigint not null
);

-- The receipts of paid orders.
create table order_receipts (
    order_id text primary key references orders (id),
    charge_id text not null,
    url text not null
);
