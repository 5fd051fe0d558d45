-- Texts are compared byte by byte.
alter table platform_health alter column platform type text collate "C";
alter table credential_refusals alter column platform type text collate "C",
    alter column customer_id type text collate "C", alter column creator_id type text collate "C";
