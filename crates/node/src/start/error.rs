//! Why a start failed.

use std::net::SocketAddr;
use std::path::PathBuf;

use runtime::keyfile::KeyFileError;
use runtime::vault::VaultError;
use settings::ConfigProblem;
use store::StoreError;

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration has problems; all of them are listed.
    #[error("the configuration has problems:\n{}", settings::listed(.0))]
    Configuration(Vec<ConfigProblem>),
    /// The database cannot be used.
    #[error("the database cannot be used")]
    Store(#[from] StoreError),
    /// The schema is older than this version, and the configuration forbids migrating it at start.
    #[error(
        "the database's schema is not up to date: {applied} of {all} steps were applied, and \
        database.migrate_at_start is false; run `creator-gateway migrate` with the same configuration first"
    )]
    Schema {
        /// Steps that were applied.
        applied: usize,
        /// Steps that this version needs.
        all: usize,
    },
    /// The vault cannot be opened.
    #[error("the vault cannot be opened")]
    Vault(#[from] VaultError),
    /// The command needs a database that exists.
    #[error(
        "there is no database at {path}; run this in the folder of the service, or set database.url to an \
        absolute path; `creator-gateway serve` or `migrate` creates one"
    )]
    NoDatabase {
        /// The database file, with its folder.
        path: String,
    },
    /// The command needs a database with a schema.
    #[error(
        "{database} has no tables of creator-gateway; check database.url; `creator-gateway serve` or `migrate` \
        creates them"
    )]
    NoSchema {
        /// Which database, for people.
        database: String,
    },
    /// The command needs the schema of this version, and does not migrate.
    #[error(
        "the schema of {database} is older than this version: {applied} of {all} steps were applied; run \
        `creator-gateway migrate` with the same configuration first"
    )]
    OlderSchema {
        /// Which database, for people.
        database: String,
        /// Steps that were applied.
        applied: usize,
        /// Steps that this version needs.
        all: usize,
    },
    /// The command needs the master key file that was created with the database.
    #[error(
        "there is no master key file at {path}; set secrets.key_file to the one of the service; `creator-gateway \
        serve` or `migrate` creates one for a new database"
    )]
    NoKeyFile {
        /// The file, with its folder.
        path: String,
    },
    /// The key file cannot be used.
    #[error("the master key cannot be read")]
    KeyFile(#[from] KeyFileError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The system cannot provide a thread or its event loop.
    #[error("a thread cannot be started")]
    Thread(#[source] std::io::Error),
    /// The folder of uploads cannot be used.
    #[error("the folder of uploads, {path}, cannot be used")]
    Uploads {
        /// The folder.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The admin token's file cannot be written.
    #[error("the admin token cannot be written to {path}")]
    Token {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
}
