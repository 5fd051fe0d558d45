-- What transactions of the metering have counted and nobody has added to usage_daily and usage_routes yet: each one's
-- counts as one row, since every key and endpoint would otherwise be a row changed in each of the two. The writer adds
-- them up every few transactions. JSON: [[customer_id, day, [creator_id, platform, method, route],
-- [[key_id, calls, credits, errors, last_at, last_status], ...]], ...].
create table usage_notes (
    id integer primary key,
    counts text not null
);

-- What usage is read from: what was added up, and what was noted since.
create view usage_by_day as
select customer_id, key_id, day, calls, credits, ok, errors from usage_daily
union all
select endpoint.value ->> 0, counted.value ->> 0, endpoint.value ->> 1, counted.value ->> 1, counted.value ->> 2,
       (counted.value ->> 1) - (counted.value ->> 3), counted.value ->> 3
from usage_notes, json_each(usage_notes.counts) as endpoint, json_each(endpoint.value, '$[3]') as counted;

create view usage_by_route as
select customer_id, key_id, day, creator_id, platform, method, route, calls, errors, last_status, last_at
from usage_routes
union all
select endpoint.value ->> 0, counted.value ->> 0, endpoint.value ->> 1, endpoint.value ->> '$[2][0]',
       endpoint.value ->> '$[2][1]', endpoint.value ->> '$[2][2]', endpoint.value ->> '$[2][3]',
       counted.value ->> 1, counted.value ->> 3, counted.value ->> 5, counted.value ->> 4
from usage_notes, json_each(usage_notes.counts) as endpoint, json_each(endpoint.value, '$[3]') as counted;
