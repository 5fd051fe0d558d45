-- An account that its customer switched off is inactive and stays so, whatever slots are free, until it is switched on
-- again. Counts while the account is inactive only; null: it is inactive because no slot was free.
alter table accounts add column switched_off_at bigint;
