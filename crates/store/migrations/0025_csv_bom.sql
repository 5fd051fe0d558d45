-- Whether a csv file begins with a byte order mark.
alter table export_jobs add column csv_bom bigint not null default 0 check (csv_bom in (0, 1));
