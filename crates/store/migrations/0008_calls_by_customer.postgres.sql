-- The log is read by its customer; the key is in the index so that entries of other keys are passed over
-- without being read. One place for each customer, not one for each key, is written to with every commit.
drop index calls_by_key;
create index calls_by_customer on calls (customer_id, held_at, key_id);
