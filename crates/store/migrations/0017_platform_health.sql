-- What all nodes know about a platform as a whole. While it refuses everybody's credentials (refusing_since is not
-- null), no account is marked for it. last_success_at is the latest response that proved credentials good, as far as a
-- node had to tell; it is not written with each success.
create table platform_health (
    platform text primary key,
    refusing_since bigint,
    last_success_at bigint not null
);

-- Accounts whose credentials a platform refused lately, each confirmed by the identity check. Several within a minute
-- mean that the platform refuses everybody; then those that were marked for it (marked_version) are unmarked. Rows are
-- deleted when they are older than that.
create table credential_refusals (
    platform text not null,
    customer_id text not null,
    creator_id text not null,
    refused_at bigint not null,
    marked_version bigint,
    primary key (platform, customer_id, creator_id)
);
