-- Who registers and pays. Addresses are stored in their one canonical spelling, so text equality is enough.
create table customers (
    id text primary key,
    email text not null unique,
    name text not null,
    password_hash text not null,
    email_verified_at bigint,
    trial_state text not null check (trial_state in ('none', 'pending', 'granted')),
    created_at bigint not null,
    disabled_at bigint
);

-- What a customer may still spend. The checks are the last guard of the books: no statement, however
-- wrong, can take what is not there or lose a credit.
create table customer_credits (
    customer_id text primary key references customers (id),
    granted bigint not null,
    removed bigint not null,
    spent bigint not null,
    held bigint not null,
    available bigint not null,
    debt bigint not null,
    constraint customer_credits_not_negative check (
        granted >= 0 and available >= 0 and held >= 0 and spent >= 0 and removed >= 0 and debt >= 0
    ),
    constraint customer_credits_add_up check (granted + debt = available + held + spent + removed)
);

-- Every grant and removal of credits, once for each source. Append only (see the guards).
create table ledger (
    id text primary key,
    customer_id text not null references customers (id),
    at bigint not null,
    kind text not null,
    amount bigint not null check (amount <> 0),
    balance_after bigint not null,
    source text not null,
    source_id text not null,
    reference text,
    unique (source, source_id)
);
create index ledger_by_customer on ledger (customer_id, at);

-- API keys. What a caller sends is looked up in key_secrets; a key outlives the rotation of its secret.
create table keys (
    id text primary key,
    customer_id text not null references customers (id),
    name text not null,
    shown_prefix text not null,
    shown_suffix text not null,
    scope text not null check (scope in ('read_only', 'full')),
    created_at bigint not null,
    rotated_at bigint,
    expires_at bigint,
    revoked_at bigint
);
create index keys_by_customer on keys (customer_id);

-- The secrets that open a key: its current one (valid_until is null) and, for a time of grace after a
-- rotation, the one before. Only SHA-256 in hexadecimal digits is kept.
create table key_secrets (
    hash text primary key,
    key_id text not null references keys (id),
    valid_until bigint
);
create unique index key_secrets_current on key_secrets (key_id) where valid_until is null;
create index key_secrets_by_key on key_secrets (key_id);

-- The accounts a key is limited to; a key without a row may use all.
create table key_accounts (
    key_id text not null references keys (id),
    creator_id text not null,
    primary key (key_id, creator_id)
);

-- Creator accounts that customers connected. The version changes with every change of credentials or
-- state, so that a call prepared with older ones is refused when its credits are held.
create table accounts (
    customer_id text not null references customers (id),
    creator_id text not null,
    platform text not null,
    platform_account_id text not null,
    state text not null check (state in ('active', 'inactive', 'reconnect_needed')),
    version bigint not null,
    credentials bytea not null,
    data_key_id text not null,
    scopes text,
    token_expires_at bigint,
    refresh_claimed_until bigint,
    connected_at bigint not null,
    verified_at bigint,
    primary key (customer_id, creator_id)
);
create index accounts_by_platform on accounts (customer_id, platform, state);

-- The keys that seal customers' credentials, each wrapped by a master key. One is current for a customer.
create table data_keys (
    id text primary key,
    customer_id text not null references customers (id),
    wrapped bytea not null,
    master_key_id text not null,
    created_at bigint not null,
    retired_at bigint
);
create unique index data_keys_current on data_keys (customer_id) where retired_at is null;
create index data_keys_by_master_key on data_keys (master_key_id);

-- A known text sealed by each master key: opened at start to find out that a master key is the right one.
create table master_key_canaries (
    master_key_id text primary key,
    sealed bytea not null,
    created_at bigint not null
);

-- What staff and customers did that must be found again: support access, grants, revocations.
create table audit (
    id text primary key,
    customer_id text not null references customers (id),
    at bigint not null,
    actor text not null,
    action text not null,
    details text not null
);
create index audit_by_customer on audit (customer_id, at);

-- Single facts about this database, such as the boot epoch.
create table settings (
    name text primary key,
    value text not null
);

-- The servers that share this database. The epoch grows with every start of a node.
create table nodes (
    id text primary key,
    epoch bigint not null,
    heartbeat_at bigint not null
);
