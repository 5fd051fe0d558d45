-- The comparison with the payment processor: which node makes it, and how far it has come. One row.
create table reconciliations (
    id bigint primary key check (id = 1),
    -- The node that makes it, until when nobody else does.
    leased_by text,
    leased_until bigint not null,
    -- Everything that the processor recorded before this has been read.
    read_until bigint,
    -- The UTC day (days since 1970-01-01) on which everything was last compared.
    compared_on bigint
);
insert into reconciliations (id, leased_until) values (1, 0);
