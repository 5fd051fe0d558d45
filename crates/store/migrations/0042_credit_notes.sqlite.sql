-- Whether a refund's credits are kept: marked at the processor, it counts as money that did not go back.
alter table reversals add column kept bigint not null default 0 check (kept in (0, 1));

-- Credit notes of the invoices of sales: how their money divides between what was sold and tax. `other_cents` is what a note
-- names nothing for, `unasked_cents` by how much the invoice asked for less before it was paid, `credited_cents` what went
-- back other than by refunds.
create table credit_notes (
    id text primary key,
    payment_id text not null references sales (id),
    customer_id text not null references customers (id),
    state text not null check (state in ('issued', 'void')),
    tax_cents bigint not null check (tax_cents >= 0),
    other_cents bigint not null check (other_cents >= 0),
    unasked_cents bigint not null check (unasked_cents >= 0),
    credited_cents bigint not null check (credited_cents >= 0),
    created_at bigint not null,
    changed_at bigint not null
);
create index credit_notes_by_payment on credit_notes (payment_id);
create index credit_notes_by_customer on credit_notes (customer_id);

-- What a credit note credits of the parts of its sale, and the refunds by which its money went back.
create table credit_note_parts (
    note_id text not null references credit_notes (id),
    pot text not null,
    cents bigint not null check (cents >= 0),
    primary key (note_id, pot)
);
create table credit_note_refunds (
    note_id text not null references credit_notes (id),
    refund_id text not null,
    cents bigint not null check (cents >= 0),
    primary key (note_id, refund_id)
);
