-- What a key may spend in one UTC month; without a figure it may spend all that its customer has. What it has
-- spent is not kept here: it is what its calls of the month cost.
alter table keys add column monthly_budget bigint check (monthly_budget is null or monthly_budget >= 0);
-- Grows with every change of what the key may do, so that a call admitted under older limits is admitted anew.
alter table keys add column version bigint not null default 0;
-- When the key was last used for something else than a native call; of those the call log tells.
alter table keys add column last_used_at bigint;

-- What staff (customers themselves) may do for other customers.
create table staff_permissions (
    customer_id text not null references customers (id),
    permission text not null,
    granted_at bigint not null,
    primary key (customer_id, permission)
);

-- Whether staff may look at a customer's calls, exports and usage, and until when. What they looked at is in
-- the audit list.
create table support_access (
    customer_id text primary key references customers (id),
    enabled_at bigint not null,
    expires_at bigint not null,
    ended_at bigint
);

