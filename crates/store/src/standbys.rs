//! The standby servers of a PostgreSQL primary, as the primary sees them.

use crate::{DatabaseKind, Store, StoreError};

/// What `pg_stat_replication` on the primary says about its standbys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StandbyStatus {
    /// Streaming, and commits wait for them (`sync_state` is `sync` or `quorum`).
    pub synchronous: i64,
    /// Streaming, and commits do not wait for them.
    pub asynchronous: i64,
    /// Connected, but the service's role may not see their state (it lacks `pg_read_all_stats`).
    pub hidden: i64,
    /// How many bytes of the write-ahead log the slowest standby has not flushed; 0 if there is no
    /// standby.
    pub lag_bytes: i64,
    /// Whether `synchronous_standby_names` makes commits wait for a standby.
    pub is_synchronous_required: bool,
}

/// The standbys of the primary in use. `None` on SQLite.
pub async fn read(store: &Store) -> Result<Option<StandbyStatus>, StoreError> {
    const SQL: &str = "
        select count(*) filter (where state = 'streaming' and sync_state in ('sync', 'quorum')) as synchronous,
            count(*) filter (where state = 'streaming' and sync_state not in ('sync', 'quorum')) as asynchronous,
            count(*) filter (where state is null) as hidden,
            cast(coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn))
                filter (where state = 'streaming'), 0) as bigint) as lag_bytes,
            cast(case when current_setting('synchronous_standby_names') = '' then 0 else 1 end as bigint)
                as is_synchronous_required
        from pg_stat_replication";
    if store.database() == DatabaseKind::Sqlite {
        return Ok(None);
    }
    let found = store.read().await?.row(SQL, &[]).await?;
    let standbys = |row: &crate::sql::SqlRow| {
        Ok(StandbyStatus {
            synchronous: row.int("synchronous")?,
            asynchronous: row.int("asynchronous")?,
            hidden: row.int("hidden")?,
            lag_bytes: row.int("lag_bytes")?.max(0),
            is_synchronous_required: row.int("is_synchronous_required")? == 1,
        })
    };
    found.as_ref().map(standbys).transpose()
}
