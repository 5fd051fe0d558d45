//! Databases that must exist: only `serve`, `migrate` and `sandbox` create a database, its schema or
//! its master key file. Every other command is refused where one of them is missing, because it
//! would otherwise work on a new and wrong database.

use std::path::Path;

use runtime::clock::Random;
use runtime::keyfile;
use settings::Config;
use store::{SchemaSteps, Store, StoreAccess, StoreError};

use super::error::StartError;
use super::open;

/// What a command does about a missing database, schema or master key file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingParts {
    /// It creates them.
    Create,
    /// It is refused.
    Refuse,
}

/// Opens a database that exists and has the schema of this version.
pub(super) async fn store(config: &Config, access: StoreAccess) -> Result<Store, StartError> {
    let opened = open::store(config, access, MissingParts::Refuse).await;
    let store = opened.map_err(|error| match error {
        StoreError::NoDatabase { path } => StartError::NoDatabase { path },
        other => other.into(),
    })?;
    match check(config, &store).await {
        Ok(()) => Ok(store),
        Err(error) => {
            store.close().await;
            Err(error)
        }
    }
}

async fn check(config: &Config, store: &Store) -> Result<(), StartError> {
    let SchemaSteps { applied, all } = store.schema_steps().await?;
    match applied {
        0 => Err(StartError::NoSchema { database: named(config) }),
        _ if applied < all => {
            Err(StartError::OlderSchema { database: named(config), applied, all })
        }
        _ => Ok(()),
    }
}

/// The database for people: never its URL, which has a password in it.
fn named(config: &Config) -> String {
    match config.embedded_database() {
        Some(path) => format!("the database {}", absolute(&path)),
        None => "the PostgreSQL database of database.url".to_owned(),
    }
}

/// Creates and migrates the configured database, with the file of its master keys if nothing was
/// sealed yet. A key file that was lost later is not replaced: no other key opens what is sealed.
pub async fn migrate(config: &Config) -> Result<(), StartError> {
    let store = open::store(config, StoreAccess::ReadWrite, MissingParts::Create).await?;
    store.migrate().await?;
    if let Some(path) = open::key_file(config).filter(|path| !path.exists())
        && !store::data_keys::are_sealed(&store).await?
    {
        keyfile::create(&path, &Random::System)?;
    }
    store.close().await;
    Ok(())
}

/// The path with its folder.
pub(super) fn absolute(path: &Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    whole.display().to_string()
}
