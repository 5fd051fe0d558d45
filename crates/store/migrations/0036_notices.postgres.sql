-- Which notices a customer decided about; without a row the default of the kind applies. Only low balances have a
-- threshold.
create table notice_choices (
    customer_id text collate "C" not null references customers (id),
    kind text collate "C" not null,
    is_on bigint not null check (is_on in (0, 1)),
    threshold_credits bigint check (threshold_credits is null or threshold_credits > 0),
    changed_at bigint not null,
    primary key (customer_id, kind)
);

-- The notices that customers were sent, each once, whichever node found the reason: the row and the email's job are
-- committed together. `subject` is what the notice is about, such as a lot, or a key with its month and step. The row
-- of a low balance is deleted when the balance is high again, all others after 100 days.
create table sent_notices (
    kind text collate "C" not null,
    customer_id text collate "C" not null references customers (id),
    subject text collate "C" not null,
    sent_at bigint not null,
    primary key (kind, customer_id, subject)
);
create index sent_notices_by_customer on sent_notices (customer_id);
create index sent_notices_by_age on sent_notices (sent_at);

-- Keys with a budget are looked through for notices; most keys have none.
create index keys_with_budget on keys (id) where monthly_budget is not null;
