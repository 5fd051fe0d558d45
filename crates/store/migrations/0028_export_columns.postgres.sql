-- The columns that were chosen for the file, as a JSON list of names; null: all of them.
alter table export_jobs add column columns text collate "C";
