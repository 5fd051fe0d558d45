//! Which database to open, and how.

/// The kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseKind {
    /// One file used by one process, which is the authority for every balance.
    Sqlite,
    /// Shared by many nodes.
    Postgres,
}

/// Whether a store is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreAccess {
    /// As the server does: reading and writing. On SQLite only one process at a time.
    ReadWrite,
    /// Read-only; works while a server is running.
    ReadOnly,
}

/// How to open a database.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// `sqlite:PATH` or `postgres://…`, also with several hosts.
    pub url: String,
    /// Whether a missing SQLite file is created; otherwise it is an error.
    pub create_if_missing: bool,
    /// Whether to open for writing.
    pub access: StoreAccess,
    /// Maximum number of connections: readers on SQLite; on PostgreSQL all but those of the
    /// metering.
    pub connections_max: u32,
    /// Accepts a PostgreSQL server that may lose confirmed commits (`fsync`, `full_page_writes` or
    /// `synchronous_commit` off, or `synchronous_commit` set to `local`).
    pub allow_unsafe: bool,
    /// Size of the reserve file of an embedded database, in bytes. It is deleted when the disk
    /// fills up so that running calls can end. 0: no reserve.
    pub reserve_bytes: u64,
}

impl OpenOptions {
    /// Reads and writes, creates a missing file, eight connections, no unsafe settings, no reserve.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            create_if_missing: true,
            access: StoreAccess::ReadWrite,
            connections_max: 8,
            allow_unsafe: false,
            reserve_bytes: 0,
        }
    }
}
