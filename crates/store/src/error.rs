//! What can go wrong with the database. Expected outcomes are not here: they are return values.

use std::time::Duration;

/// Why the store could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused a statement, or the connection to it failed.
    #[error("the database failed: {}", described(.0))]
    Database(sqlx::Error),
    /// A server of the database cannot be used.
    #[error("{host}: {source}")]
    Connect {
        /// Its name and port.
        host: String,
        /// Why.
        source: Box<StoreError>,
    },
    /// A server of the database takes no writes: it is a standby, or was set to read only.
    #[error("the server takes no writes: {}", if *.is_standby { "it is a standby" } else { "it is set to read only" })]
    NotWritable {
        /// Whether it follows another server.
        is_standby: bool,
    },
    /// Something between the service and the database does not keep the settings of a connection.
    #[error(
        "the setting {setting} is not in force after it was set: a connection pooler before the database must keep a \
         connection for a session (with PgBouncer, pool_mode = session)"
    )]
    SettingDropped {
        /// Its name.
        setting: &'static str,
    },
    /// The database did not respond in time.
    #[error("{doing} took longer than {} s", waited.as_secs())]
    Deadline {
        /// What was waited for.
        doing: &'static str,
        /// For how long.
        waited: Duration,
    },
    /// The URL of the database cannot be read.
    #[error("{0}")]
    Url(String),
    /// SQLite refused a statement of the metering, or could not be opened for it.
    #[error("the database failed under the metering: {0}")]
    Metering(rusqlite::Error),
    /// The schema could not be brought up to date.
    #[error("the migrations of the database failed: {0}")]
    Migration(sqlx::migrate::MigrateError),
    /// A row holds what this version cannot read.
    #[error("the row {id} of the table {table} cannot be read")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The row, as far as it is known.
        id: String,
    },
    /// Another server has the SQLite file open.
    #[error("{path} is in use by another server")]
    InUse {
        /// The database file.
        path: String,
    },
    /// The database would lose what it confirmed; see `OpenOptions::allow_unsafe`.
    #[error("the database is not safe against power loss: {setting} is {value}")]
    Unsafe {
        /// The name of the setting, as the database calls it.
        setting: &'static str,
        /// The value it has.
        value: String,
    },
    /// The url of the database starts with neither `sqlite:` nor `postgres:`.
    #[error("a database url starts with sqlite: or postgres://")]
    UnknownUrl,
    /// A file beside the database could not be opened.
    #[error("{path} cannot be opened")]
    File {
        /// The file.
        path: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The store was opened for reading only.
    #[error("the database is open for reading only")]
    ReadOnly,
    /// The metering writer is gone; the process is stopping.
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

/// The driver's message and its causes, with the SQLSTATE or SQLite's number, so that a log shows whether a server is
/// read-only, a disk is full, a lock is held or a connection is lost.
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
    /// Whether a server that cannot be used now may be usable in a moment: another password or setting would not help it.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Connect { source, .. } => source.may_pass(),
            Self::Unsafe { .. } | Self::SettingDropped { .. } => false,
            other => other.is_outage(),
        }
    }

    /// Whether a server was refused for being a standby.
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

    /// Whether SQLite could not write or flush: nobody knows what is on the disk now.
    pub(crate) fn is_lost_write(&self) -> bool {
        self.sqlite_code().is_some_and(|code| SQLITE_LOST_WRITES.contains(&code))
    }

    /// Whether SQLite found no room on the disk, also for the index of its write-ahead log.
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

    /// Whether the database is away or refuses everybody for the moment: the same may succeed later.
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
            // None of them says anything about what was asked: the server as it is cannot be used.
            Self::Connect { .. }
            | Self::NotWritable { .. }
            | Self::SettingDropped { .. }
            | Self::Deadline { .. }
            | Self::Unsafe { .. }
            | Self::Stopped => true,
            _ => false,
        }
    }

    /// Whether a unique constraint refused the statement that gave this error.
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

/// An input or output error without more, of a write, of a flush, of a flush of the folder.
const SQLITE_LOST_WRITES: [i64; 4] = [10, 778, 1034, 1290];
const SQLITE_FULL: i64 = 13;
const SQLITE_NO_INDEX_ROOM: i64 = 4874;

/// What the lowest byte of a number of SQLite is about, where the same may succeed later: another has locked the file
/// or a table, reading or writing fails, the disk is full, the file cannot be opened.
const SQLITE_OUTAGES: [i64; 5] = [5, 6, 10, 13, 14];

/// Classes and conditions of PostgreSQL that pass: connections, resources, shutdown and start, a server that takes no
/// writes, errors of its system (a full or broken disk); limits on locks, on the time of a statement and on idling in a
/// transaction.
const POSTGRES_OUTAGES: [&str; 8] = ["08", "53", "57P", "58", "25006", "55P03", "57014", "25P03"];

/// A prepared statement exists already, or does not exist: somebody else uses the same session.
const STATEMENT_MIX_UPS: [&str; 2] = ["42P05", "26000"];
const POOLER_HINT: &str = "; a connection pooler before the database must keep a connection for a session (with \
    PgBouncer, pool_mode = session)";

/// How long PostgreSQL's codes are; the numbers of SQLite are shorter.
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
    fn an_outage_is_told_from_a_fault() {
        // Shut down, starting, too many connections, a full and a broken disk, a standby, lock and statement timeouts;
        // busy, a failed flush, a full disk.
        let passing = [
            "57P01", "57P03", "53300", "53100", "58030", "25006", "55P03", "57014", "08006", "5",
            "1034", "13", "14",
        ];
        for code in passing {
            assert!(is_outage_code(code), "{code}");
        }
        // A constraint, wrong syntax, a serialization failure; a constraint, a corrupt file.
        for code in ["23505", "42601", "40001", "2067", "11"] {
            assert!(!is_outage_code(code), "{code}");
        }
        assert!(StoreError::Database(sqlx::Error::PoolTimedOut).is_outage());
        assert!(!StoreError::Database(sqlx::Error::RowNotFound).is_outage());
    }
}
