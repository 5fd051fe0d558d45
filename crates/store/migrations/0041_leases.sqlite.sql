-- Which node has a lease; null for nobody. Where nobody has it, the time in the row says from when it may be claimed.
-- (`export_jobs`, `jobs` and `reconciliations` have had this column since they were made; in `export_jobs` nobody is an
-- empty text, because rows of running exports may not have null there.)
alter table own_requests add column leased_by text;
alter table slot_changes add column leased_by text;
alter table top_ups add column leased_by text;
alter table accounts add column refresh_claimed_by text;
create index own_requests_leased on own_requests (leased_by) where state = 'running';
create index accounts_refreshing on accounts (refresh_claimed_by) where refresh_claimed_by is not null;

-- Who the account of a request is on its platform, as a hash; null where the request concerns none, or was made before.
alter table idempotency add column identity text;
