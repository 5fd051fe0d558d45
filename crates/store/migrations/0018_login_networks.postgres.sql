-- Networks in which a customer's login succeeded lately, shortened as those of sessions. Whoever floods a customer's
-- login from elsewhere does not keep it out of these. At most 20 for each customer, each for 90 days.
create table login_networks (
    customer_id text collate "C" not null references customers (id),
    network text collate "C" not null,
    last_login_at bigint not null,
    primary key (customer_id, network)
);
create index login_networks_by_login on login_networks (last_login_at);
