-- What an export is doing, how long the platform's list is, how much of it was read, and until when it waits.
alter table export_jobs add column phase text;
alter table export_jobs add column list_rows bigint;
alter table export_jobs add column list_rows_read bigint not null default 0;
alter table export_jobs add column waiting_until bigint;
