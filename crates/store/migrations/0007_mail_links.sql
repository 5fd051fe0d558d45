-- Links that were mailed: what their holder may do, once. Only the SHA-256 of a link's token in hexadecimal
-- digits is kept. A link belongs to one customer and to the address it was mailed to. Used and ended links stay
-- for some days, so that their holder can be told what became of them.
create table mail_links (
    hash text primary key,
    customer_id text not null references customers (id),
    purpose text not null check (purpose in ('confirm_email', 'change_email', 'reset_password')),
    email text not null,
    created_at bigint not null,
    expires_at bigint not null,
    used_at bigint
);
create index mail_links_by_customer on mail_links (customer_id, purpose);
create index mail_links_by_end on mail_links (expires_at);

-- The address that a customer wants instead of its own, until the link that is mailed to it is used.
create table email_changes (
    customer_id text primary key references customers (id),
    email text not null,
    requested_at bigint not null
);

-- Mailboxes that have had their trial, for good: SHA-256 of the address without a tag, in hexadecimal digits.
create table trial_mailboxes (
    hash text primary key,
    customer_id text not null references customers (id),
    granted_at bigint not null
);

-- How many trials began on a UTC day in one network or under one mail domain. Rows live for some days.
create table trial_starts (
    scope text not null,
    day bigint not null,
    trials bigint not null,
    primary key (scope, day)
);
