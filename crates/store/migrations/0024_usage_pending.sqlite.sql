-- What transactions of the metering have counted and nobody has added to usage_daily and usage_routes yet: a row for each
-- key and endpoint of a transaction. Versions before this one write them as JSON into usage_deltas and usage_notes, which
-- are read as before. A later version adds columns with a default, and this one reads those that it knows.
create table usage_pending (
    id integer primary key,
    customer_id text not null,
    key_id text not null,
    day integer not null,
    creator_id text not null,
    platform text not null,
    method text not null,
    route text not null,
    calls integer not null default 0,
    credits integer not null default 0,
    errors integer not null default 0,
    last_status integer,
    last_at integer
) strict;

-- What usage is read from: what was added up, and what was counted since.
drop view usage_by_day;
create view usage_by_day as
select customer_id, key_id, day, calls, credits, ok, errors from usage_daily
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
