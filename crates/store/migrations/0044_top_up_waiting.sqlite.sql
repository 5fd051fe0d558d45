-- Why automatic top-up buys nothing although the balance is low, and when that ends; null where it may buy, or where nothing
-- but a change of its settings ends it.
alter table top_up_settings add column waiting_reason text;
alter table top_up_settings add column waiting_until bigint;
