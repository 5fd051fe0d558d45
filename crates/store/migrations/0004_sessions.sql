-- Logins of customers in browsers. What the browser holds is a token; only its SHA-256 in hexadecimal
-- digits is kept. The address is shortened to its network. A session ends by being deleted.
create table sessions (
    id text primary key,
    customer_id text not null references customers (id),
    token_hash text not null unique,
    user_agent text not null,
    network text not null,
    created_at bigint not null,
    last_used_at bigint not null
);
create index sessions_by_customer on sessions (customer_id, last_used_at);
create index sessions_by_use on sessions (last_used_at);
create index sessions_by_age on sessions (created_at);
