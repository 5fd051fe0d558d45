-- The call log, small. A call is a row of open_calls until it ends: the transaction that ends it moves it to new_calls,
-- which has no index, and every few transactions these rows are counted as usage and move to ended_calls, in its order. So
-- each page of the large table and its index is written once for many transactions. The view `calls` shows all three as
-- before, for people and for what reads rarely.

-- What calls repeat, each word once: the ids of customers, keys and nodes, the names of accounts and platforms, methods,
-- routes and outcomes. Words are only ever added.
create table words (
    number integer primary key,
    word text not null unique
);

-- Calls whose credits are held.
create table open_calls (
    -- The UUID in the call's id.
    id blob primary key,
    -- Numbers of words.
    customer integer not null,
    key integer not null,
    account integer not null,
    platform integer not null,
    method integer not null,
    route integer not null,
    node integer not null,
    -- Null if it is the same as the route.
    path text,
    cost bigint not null check (cost >= 0),
    -- The UUID in the request's id; the text of an id that a caller chose.
    request blob,
    request_text text,
    epoch bigint not null,
    held_at bigint not null,
    expires_at bigint not null,
    idempotency_hash blob,
    tag text
) without rowid;

-- Calls that have ended. A column has the meaning that it has in open_calls.
create table ended_calls (
    id blob primary key,
    customer integer not null,
    key integer not null,
    account integer not null,
    platform integer not null,
    method integer not null,
    route integer not null,
    outcome integer not null,
    node integer not null,
    path text,
    cost bigint not null check (cost >= 0),
    -- 1 if the cost was charged, 0 if it was refunded.
    charged integer not null check (charged = 0 or charged = 1),
    status integer,
    request blob,
    request_text text,
    epoch bigint not null,
    held_at bigint not null,
    -- Microseconds from held_at to the end.
    lasted bigint not null,
    duration_ms bigint,
    upstream_ms bigint,
    idempotency_hash blob,
    tag text
) without rowid;

-- Calls that ended in the latest transactions and are not counted as usage yet. The columns are those of ended_calls.
create table new_calls (
    id blob not null,
    customer integer not null,
    key integer not null,
    account integer not null,
    platform integer not null,
    method integer not null,
    route integer not null,
    outcome integer not null,
    node integer not null,
    path text,
    cost bigint not null check (cost >= 0),
    charged integer not null check (charged = 0 or charged = 1),
    status integer,
    request blob,
    request_text text,
    epoch bigint not null,
    held_at bigint not null,
    lasted bigint not null,
    duration_ms bigint,
    upstream_ms bigint,
    idempotency_hash blob,
    tag text
);

insert into words (word)
select customer_id from calls union select key_id from calls union select creator_id from calls
union select platform from calls union select method from calls union select route from calls
union select node_id from calls union select outcome from calls where outcome is not null;

insert into ended_calls
select unhex(substr(c.id, 6)), customer.number, key.number, account.number, platform.number, method.number,
       route.number, outcome.number, node.number, nullif(c.path, c.route), c.cost, c.state = 'settled', c.status,
       case when c.request_id glob 'req_*' and length(c.request_id) = 36 and substr(c.request_id, 5) not glob '*[^0-9a-f]*'
            then unhex(substr(c.request_id, 5)) end,
       case when c.request_id glob 'req_*' and length(c.request_id) = 36 and substr(c.request_id, 5) not glob '*[^0-9a-f]*'
            then null else c.request_id end,
       c.epoch, c.held_at, c.resolved_at - c.held_at, c.duration_ms, c.upstream_ms, unhex(c.idempotency_hash), c.tag
from calls c
join words customer on customer.word = c.customer_id
join words key on key.word = c.key_id
join words account on account.word = c.creator_id
join words platform on platform.word = c.platform
join words method on method.word = c.method
join words route on route.word = c.route
join words outcome on outcome.word = c.outcome
join words node on node.word = c.node_id
where c.state <> 'held'
order by c.id;

insert into open_calls
select unhex(substr(c.id, 6)), customer.number, key.number, account.number, platform.number, method.number,
       route.number, node.number, nullif(c.path, c.route), c.cost,
       case when c.request_id glob 'req_*' and length(c.request_id) = 36 and substr(c.request_id, 5) not glob '*[^0-9a-f]*'
            then unhex(substr(c.request_id, 5)) end,
       case when c.request_id glob 'req_*' and length(c.request_id) = 36 and substr(c.request_id, 5) not glob '*[^0-9a-f]*'
            then null else c.request_id end,
       c.epoch, c.held_at, c.expires_at, unhex(c.idempotency_hash), c.tag
from calls c
join words customer on customer.word = c.customer_id
join words key on key.word = c.key_id
join words account on account.word = c.creator_id
join words platform on platform.word = c.platform
join words method on method.word = c.method
join words route on route.word = c.route
join words node on node.word = c.node_id
where c.state = 'held';

-- The migration fails if a call was left behind.
create temp table calls_moved (
    all_of_them integer not null check (all_of_them = 1)
);
insert into calls_moved
select (select count(*) from calls) = (select count(*) from open_calls) + (select count(*) from ended_calls);
drop table calls_moved;

drop table calls;

create index ended_calls_by_customer on ended_calls (customer, held_at, key);

create trigger calls_end_once before update on ended_calls
begin
    select raise(rollback, 'an ended call never changes');
end;
create trigger new_calls_end_once before update on new_calls
begin
    select raise(rollback, 'an ended call never changes');
end;

create view all_ended_calls as
select * from ended_calls union all select * from new_calls;

-- Every call with its words, and the column by which the tables find it.
create view call_rows as
select e.id as row_id, 'call_' || lower(hex(e.id)) as id, customer.word as customer_id,
       key.word as key_id, account.word as creator_id, platform.word as platform, method.word as method,
       coalesce(e.path, route.word) as path, route.word as route, e.cost, e.cost * e.charged as credits,
       case e.charged when 1 then 'settled' else 'refunded' end as state, outcome.word as outcome, e.status,
       coalesce(e.request_text, 'req_' || lower(hex(e.request))) as request_id, node.word as node_id, e.epoch, e.held_at,
       cast(null as bigint) as expires_at, e.held_at + e.lasted as resolved_at, e.duration_ms, e.upstream_ms,
       nullif(lower(hex(e.idempotency_hash)), '') as idempotency_hash, e.tag
from ended_calls e
left join words customer on customer.number = e.customer
left join words key on key.number = e.key
left join words account on account.number = e.account
left join words platform on platform.number = e.platform
left join words method on method.number = e.method
left join words route on route.number = e.route
left join words outcome on outcome.number = e.outcome
left join words node on node.number = e.node
union all
select e.id as row_id, 'call_' || lower(hex(e.id)) as id, customer.word as customer_id,
       key.word as key_id, account.word as creator_id, platform.word as platform, method.word as method,
       coalesce(e.path, route.word) as path, route.word as route, e.cost, e.cost * e.charged as credits,
       case e.charged when 1 then 'settled' else 'refunded' end as state, outcome.word as outcome, e.status,
       coalesce(e.request_text, 'req_' || lower(hex(e.request))) as request_id, node.word as node_id, e.epoch, e.held_at,
       cast(null as bigint) as expires_at, e.held_at + e.lasted as resolved_at, e.duration_ms, e.upstream_ms,
       nullif(lower(hex(e.idempotency_hash)), '') as idempotency_hash, e.tag
from new_calls e
left join words customer on customer.number = e.customer
left join words key on key.number = e.key
left join words account on account.number = e.account
left join words platform on platform.number = e.platform
left join words method on method.number = e.method
left join words route on route.number = e.route
left join words outcome on outcome.number = e.outcome
left join words node on node.number = e.node
union all
select o.id, 'call_' || lower(hex(o.id)), customer.word, key.word, account.word, platform.word,
       method.word, coalesce(o.path, route.word), route.word, o.cost, null, 'held', null, null,
       coalesce(o.request_text, 'req_' || lower(hex(o.request))), node.word, o.epoch, o.held_at, o.expires_at, null, null,
       null, nullif(lower(hex(o.idempotency_hash)), ''), o.tag
from open_calls o
left join words customer on customer.number = o.customer
left join words key on key.number = o.key
left join words account on account.number = o.account
left join words platform on platform.number = o.platform
left join words method on method.number = o.method
left join words route on route.number = o.route
left join words node on node.number = o.node;

create view calls as
select id, customer_id, key_id, creator_id, platform, method, path, route, cost, credits, state, outcome, status,
       request_id, node_id, epoch, held_at, expires_at, resolved_at, duration_ms, upstream_ms, idempotency_hash, tag
from call_rows;

-- What usage is read from: what was added up, new calls, and what earlier versions counted and nobody has added up yet.
drop view usage_by_day;
create view usage_by_day as
select customer_id, key_id, day, calls, credits, ok, errors from usage_daily
union all
select customer.word, key.word, n.held_at / 86400000000, 1, n.cost * n.charged,
       case when n.charged = 1 and n.status < 400 then 1 else 0 end,
       case when n.charged = 1 and n.status < 400 then 0 else 1 end
from new_calls n
join words customer on customer.number = n.customer
join words key on key.number = n.key
union all
select customer_id, key_id, day, calls, credits, calls - errors, errors from usage_pending
union all
select (case delta.type when 'object' then delta.value else '{}' end ->> 'customer'),
       (case counted.type when 'object' then counted.value else '{}' end ->> 'key'),
       (case delta.type when 'object' then delta.value else '{}' end ->> 'day'),
       coalesce((case counted.type when 'object' then counted.value else '{}' end ->> 'calls'), 0),
       coalesce((case counted.type when 'object' then counted.value else '{}' end ->> 'credits'), 0),
       coalesce((case counted.type when 'object' then counted.value else '{}' end ->> 'calls'), 0) - coalesce((case counted.type when 'object' then counted.value else '{}' end ->> 'errors'), 0),
       coalesce((case counted.type when 'object' then counted.value else '{}' end ->> 'errors'), 0)
from usage_deltas,
     json_each(case when json_valid(usage_deltas.counts) then usage_deltas.counts else '[]' end) as delta,
     json_each(case delta.type when 'object' then delta.value else '{}' end, '$.keys') as counted
where counted.type = 'object'
union all
select (case endpoint.type when 'array' then endpoint.value else '[]' end ->> 0),
       (case counted.type when 'array' then counted.value else '[]' end ->> 0),
       (case endpoint.type when 'array' then endpoint.value else '[]' end ->> 1),
       (case counted.type when 'array' then counted.value else '[]' end ->> 1),
       (case counted.type when 'array' then counted.value else '[]' end ->> 2),
       (case counted.type when 'array' then counted.value else '[]' end ->> 1) - (case counted.type when 'array' then counted.value else '[]' end ->> 3),
       (case counted.type when 'array' then counted.value else '[]' end ->> 3)
from usage_notes,
     json_each(case when json_valid(usage_notes.counts) then usage_notes.counts else '[]' end) as endpoint,
     json_each(case endpoint.type when 'array' then endpoint.value else '[]' end, '$[3]') as counted
where counted.type = 'array';

drop view usage_by_route;
create view usage_by_route as
select customer_id, key_id, day, creator_id, platform, method, route, calls, errors, last_status, last_at
from usage_routes
union all
select customer.word, key.word, n.held_at / 86400000000, account.word, platform.word, method.word, route.word, 1,
       case when n.charged = 1 and n.status < 400 then 0 else 1 end, n.status, n.held_at
from new_calls n
join words customer on customer.number = n.customer
join words key on key.number = n.key
join words account on account.number = n.account
join words platform on platform.number = n.platform
join words method on method.number = n.method
join words route on route.number = n.route
union all
select customer_id, key_id, day, creator_id, platform, method, route, calls, errors, last_status, last_at
from usage_pending
union all
select (case delta.type when 'object' then delta.value else '{}' end ->> 'customer'),
       (case counted.type when 'object' then counted.value else '{}' end ->> 'key'),
       (case delta.type when 'object' then delta.value else '{}' end ->> 'day'),
       (case delta.type when 'object' then delta.value else '{}' end ->> 'account'),
       (case delta.type when 'object' then delta.value else '{}' end ->> 'platform'),
       (case delta.type when 'object' then delta.value else '{}' end ->> 'method'),
       (case delta.type when 'object' then delta.value else '{}' end ->> 'route'),
       coalesce((case counted.type when 'object' then counted.value else '{}' end ->> 'calls'), 0),
       coalesce((case counted.type when 'object' then counted.value else '{}' end ->> 'errors'), 0),
       (case counted.type when 'object' then counted.value else '{}' end ->> 'last_status'),
       (case counted.type when 'object' then counted.value else '{}' end ->> 'last_at')
from usage_deltas,
     json_each(case when json_valid(usage_deltas.counts) then usage_deltas.counts else '[]' end) as delta,
     json_each(case delta.type when 'object' then delta.value else '{}' end, '$.keys') as counted
where counted.type = 'object'
union all
select (case endpoint.type when 'array' then endpoint.value else '[]' end ->> 0),
       (case counted.type when 'array' then counted.value else '[]' end ->> 0),
       (case endpoint.type when 'array' then endpoint.value else '[]' end ->> 1),
       (case endpoint.type when 'array' then endpoint.value else '[]' end ->> '$[2][0]'),
       (case endpoint.type when 'array' then endpoint.value else '[]' end ->> '$[2][1]'),
       (case endpoint.type when 'array' then endpoint.value else '[]' end ->> '$[2][2]'),
       (case endpoint.type when 'array' then endpoint.value else '[]' end ->> '$[2][3]'),
       (case counted.type when 'array' then counted.value else '[]' end ->> 1),
       (case counted.type when 'array' then counted.value else '[]' end ->> 3),
       (case counted.type when 'array' then counted.value else '[]' end ->> 5),
       (case counted.type when 'array' then counted.value else '[]' end ->> 4)
from usage_notes,
     json_each(case when json_valid(usage_notes.counts) then usage_notes.counts else '[]' end) as endpoint,
     json_each(case endpoint.type when 'array' then endpoint.value else '[]' end, '$[3]') as counted
where counted.type = 'array';
