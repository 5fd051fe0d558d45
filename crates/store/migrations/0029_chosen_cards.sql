-- When the customer chose the card at the processor, in the portal for example, in place of another one: by the
-- processor's clock. Null: it was entered last.
alter table cards add column chosen_at bigint;
