-- Why a file is gone (`file_missing` while the state is still `completed`: the storage did not have it when somebody asked
-- for it), or why the export was removed, and when. Null where nothing is gone.
alter table export_jobs add column removal text collate "C";
alter table export_jobs add column removed_at bigint;

-- Lists are in the order of the ids.
create index export_jobs_list on export_jobs (customer_id, id);
