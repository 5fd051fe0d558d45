-- The cookies that a platform set for an account, sealed with the customer's data key. They are another jar's when the
-- account was connected anew with another identity; the version grows with every change, so that no node overwrites what
-- another one stored.
create table account_cookies (
    customer_id text collate "C" not null,
    creator_id text collate "C" not null,
    jar_id bigint not null,
    version bigint not null,
    sealed bytea not null,
    data_key_id text collate "C" not null,
    stored_at bigint not null,
    primary key (customer_id, creator_id),
    foreign key (customer_id, creator_id) references accounts (customer_id, creator_id) on delete cascade
);
