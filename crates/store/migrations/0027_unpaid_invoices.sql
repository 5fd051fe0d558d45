-- ended_subscriptions has live ones too (has_ended = 0): of those an older invoice is tried no more, and is voided.
alter table ended_subscriptions add column has_ended bigint not null default 1;
