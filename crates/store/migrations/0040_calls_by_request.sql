-- Calls whose request had an id that the caller chose are found by it. Other ids contain their time, which finds them by
-- the primary key, so their calls pay nothing for this.
create index ended_calls_by_request on ended_calls (request_text, customer, held_at) where request_text is not null;
