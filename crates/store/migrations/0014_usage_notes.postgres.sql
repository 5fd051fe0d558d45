-- What usage is read from. Here each transaction adds its counts at once; on SQLite they are noted first.
create view usage_by_day as
select customer_id, key_id, day, calls, credits, ok, errors from usage_daily;

create view usage_by_route as
select customer_id, key_id, day, creator_id, platform, method, route, calls, errors, last_status, last_at
from usage_routes;
