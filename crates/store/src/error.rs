//! Failures of the database. Expected outcomes are return values, not errors.

use std::time::Duration;

/// Why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused a statement, or the connection to it failed.
    #[error("the database failed: {}", described(.0))]
    Database(sqlx::Error),
    /// One of the database's servers cannot be used.
    #[error("{host}: {source}")]
    Connect {
        /// The server's name and port.
        host: String,
        /// The cause.
        source: Box<StoreError>,
    },
    /// One of the database's servers accepts no writes: it is a standby, or set to read only.
    #[error("the server accepts no writes: {}", if *.is_standby { "it is a standby" } else { "it is set to read only" })]
    NotWritable {
        /// Whether the server is a standby.
        is_standby: bool,
    },
    /// Something between the service and the database dropped a session setting.
    #[error(
        "the setting {setting} did not take effect: a connection pooler in front of the database must use \
         session pooling (with PgBouncer, pool_mode = session)"
    )]
    SettingDropped {
        /// The name of the setting.
        setting: &'static str,
    },
    /// The database did not respond in time.
    #[error("{doing} took longer than {} s", waited.as_secs())]
    Deadline {
        /// What timed out, such as `connecting`.
        doing: &'static str,
        /// The time limit.
        waited: Duration,
    },
    /// The database URL is malformed.
    #[error("{0}")]
    Url(String),
    /// SQLite refused a metering statement, or could not be opened for the metering.
    #[error("the database failed while metering calls: {0}")]
    Metering(rusqlite::Error),
    /// The migrations failed.
    #[error("the migrations of the database failed: {0}")]
    Migration(sqlx::migrate::MigrateError),
    /// A row holds a value that this version cannot read.
    #[error("the row {id} of the table {table} cannot be read")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The row's id, or the unreadable value.
        id: String,
    },
    /// A statement did not return a column, or a column holds a value that this version cannot
    /// read.
    #[error("the column {column} cannot be read: {problem}")]
    Column {
        /// The column's name; with its table, if a text of it is not understood.
        column: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The SQLite file is missing, and may not be created.
    #[error("there is no database at {path}")]
    NoDatabase {
        /// The database file, with its folder.
        path: String,
    },
    /// Another process has the SQLite file open.
    #[error("{path} is in use by another server")]
    InUse {
        /// The database file.
        path: String,
    },
    /// The database could lose confirmed commits; see `OpenOptions::allow_unsafe`.
    #[error("the database is not safe against power loss: {setting} is {value}")]
    Unsafe {
        /// The database's name for the setting.
        setting: &'static str,
        /// Its value.
        value: String,
    },
    /// The database URL starts with neither `sqlite:` nor `postgres:`.
    #[error("a database URL must start with sqlite: or postgres://")]
    UnknownUrl,
    /// A file next to the database could not be opened.
    #[error("{path} cannot be opened")]
    File {
        /// The file.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The store was opened for reading only.
    #[error("the database is open for reading only")]
    ReadOnly,
    /// The metering writer has stopped; the process is shutting down.
    #[error("the metering has stopped")]
    Stopped,
    /// A sum of credits does not fit into 64 bits.
    #[error("a sum of credits is too large")]
    TooLarge,
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Metering(error)
    }
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        Self::Migration(error)
    }
}

/// The driver's message and its causes, with the SQLSTATE or SQLite's error code, so that a log
/// shows whether a server is read-only, a disk is full, a lock is held or a connection is lost.
fn described(error: &sqlx::Error) -> String {
    if let sqlx::Error::Database(refused) = error {
        let code = refused.code().unwrap_or_default();
        let name = if code.len() == SQLSTATE_LENGTH { "SQLSTATE" } else { "code" };
        let hint = if STATEMENT_MIX_UPS.contains(&&*code) { POOLER_HINT } else { "" };
        return format!("{} ({name} {code}){hint}", refused.message());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(because) = cause {
        let because_text = because.to_string();
        if !text.ends_with(&because_text) {
            text = format!("{text}: {because_text}");
        }
        cause = because.source();
    }
    text
}

impl StoreError {
    /// Whether an unusable server may become usable soon. A wrong password or setting will not fix
    /// itself.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Connect { source, .. } => source.may_pass(),
            Self::Unsafe { .. } | Self::SettingDropped { .. } => false,
            other => other.is_outage(),
        }
    }

    /// Whether a server was refused because it is a standby.
    pub(crate) fn is_standby(&self) -> bool {
        match self {
            Self::Connect { source, .. } => source.is_standby(),
            Self::NotWritable { is_standby } => *is_standby,
            _ => false,
        }
    }

    /// A row that cannot be read.
    pub(crate) fn corrupt(table: &'static str, id: impl std::fmt::Display) -> Self {
        Self::Corrupt { table, id: id.to_string() }
    }

    /// A column that cannot be read.
    pub(crate) fn column(column: impl std::fmt::Display, problem: impl std::fmt::Display) -> Self {
        Self::Column { column: column.to_string(), problem: problem.to_string() }
    }

    /// Whether SQLite failed to write or flush, so that the contents of the disk are unknown.
    pub(crate) fn is_lost_write(&self) -> bool {
        self.sqlite_code().is_some_and(|code| SQLITE_LOST_WRITES.contains(&code))
    }

    /// Whether SQLite found the disk full, including for the index of its write-ahead log.
    pub(crate) fn is_full(&self) -> bool {
        self.sqlite_code()
            .is_some_and(|code| code & 0xff == SQLITE_FULL || code == SQLITE_NO_INDEX_ROOM)
    }

    fn sqlite_code(&self) -> Option<i64> {
        match self {
            Self::Database(sqlx::Error::Database(error)) => error
                .code()
                .filter(|code| code.len() < SQLSTATE_LENGTH)
                .and_then(|code| code.parse().ok()),
            Self::Metering(error) => error.sqlite_error().map(|error| error.extended_code.into()),
            _ => None,
        }
    }

    /// Whether the database is unreachable or temporarily refuses requests: the same operation may
    /// succeed later.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Database(sqlx::Error::Database(error)) => {
                error.code().is_some_and(|code| is_outage_code(&code))
            }
            Self::Database(error) => matches!(
                error,
                sqlx::Error::Io(_)
                    | sqlx::Error::Tls(_)
                    | sqlx::Error::Protocol(_)
                    | sqlx::Error::PoolTimedOut
                    | sqlx::Error::PoolClosed
                    | sqlx::Error::WorkerCrashed
            ),
            Self::Metering(_) => {
                self.sqlite_code().is_some_and(|code| SQLITE_OUTAGES.contains(&(code & 0xff)))
            }
            // None of these is about the operation itself: the server cannot be used as it is.
            Self::Connect { .. }
            | Self::NotWritable { .. }
            | Self::SettingDropped { .. }
            | Self::Deadline { .. }
            | Self::Unsafe { .. }
            | Self::Stopped => true,
            _ => false,
        }
    }

    /// Whether the statement violated a unique constraint.
    pub(crate) fn is_unique_violation(&self) -> bool {
        match self {
            Self::Database(sqlx::Error::Database(error)) => error.is_unique_violation(),
            Self::Metering(error) => matches!(
                error.sqlite_error().map(|failure| failure.extended_code),
                Some(
                    rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE
                        | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY
                )
            ),
            _ => false,
        }
    }
}

/// SQLite's extended codes for I/O errors: unspecified, on write, on flush, on flushing the folder.
const SQLITE_LOST_WRITES: [i64; 4] = [10, 778, 1034, 1290];
const SQLITE_FULL: i64 = 13;
const SQLITE_NO_INDEX_ROOM: i64 = 4874;

/// SQLite's primary codes (the lowest byte) for failures that may pass: the file or a table is
/// locked, an I/O error, the disk is full, the file cannot be opened.
const SQLITE_OUTAGES: [i64; 5] = [5, 6, 10, 13, 14];

/// PostgreSQL's classes and codes for failures that may pass: connections, resources, shutdown and
/// startup, system errors (a full or broken disk), a server that accepts no writes, and timeouts
/// for locks, statements and idle transactions.
const POSTGRES_OUTAGES: [&str; 8] = ["08", "53", "57P", "58", "25006", "55P03", "57014", "25P03"];

/// A prepared statement already exists, or does not exist: another client uses the same session.
const STATEMENT_MIX_UPS: [&str; 2] = ["42P05", "26000"];
const POOLER_HINT: &str = "; a connection pooler in front of the database must use session pooling (with \
    PgBouncer, pool_mode = session)";

/// The length of PostgreSQL's codes; SQLite's are shorter.
const SQLSTATE_LENGTH: usize = 5;

fn is_outage_code(code: &str) -> bool {
    if code.len() == SQLSTATE_LENGTH {
        return POSTGRES_OUTAGES.iter().any(|class| code.starts_with(class));
    }
    code.parse::<i64>().is_ok_and(|code| SQLITE_OUTAGES.contains(&(code & 0xff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_are_distinguished_from_faults() {
        // PostgreSQL: shutting down, starting, too many connections, a full and a broken disk, a
        // standby, lock and statement timeouts, a lost connection. SQLite: busy, a failed flush, a
        // full disk, an unopenable file.
        let passing = [
            "57P01", "57P03", "53300", "53100", "58030", "25006", "55P03", "57014", "08006", "5",
            "1034", "13", "14",
        ];
        for code in passing {
            assert!(is_outage_code(code), "{code}");
        }
        // PostgreSQL: a constraint, a syntax error, a serialization failure. SQLite: a constraint,
        // a corrupt file.
        for code in ["23505", "42601", "40001", "2067", "11"] {
            assert!(!is_outage_code(code), "{code}");
        }
        assert!(StoreError::Database(sqlx::Error::PoolTimedOut).is_outage());
        assert!(!StoreError::Database(sqlx::Error::RowNotFound).is_outage());
    }
}
