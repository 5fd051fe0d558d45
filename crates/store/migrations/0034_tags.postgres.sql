-- What a call or an export is for, in the customer's own words (`X-Tag`). Null without one.
alter table calls add column tag text collate "C";
alter table export_jobs add column tag text collate "C";
