//! What can go wrong with the database. Expected outcomes are not here: they are return values.

/// Why the store could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused a statement, or could not be reached.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    /// SQLite refused a statement of the metering, or could not be opened for it.
    #[error("the database failed under the metering")]
    Metering(#[from] rusqlite::Error),
    /// The schema could not be brought up to date.
    #[error("the migrations of the database failed")]
    Migration(#[from] sqlx::migrate::MigrateError),
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

impl StoreError {
    /// A row that cannot be read.
    pub(crate) fn corrupt(table: &'static str, id: impl std::fmt::Display) -> Self {
        Self::Corrupt { table, id: id.to_string() }
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
