//! Opens the database and its master keys. Only `serve`, `migrate` and `sandbox` create a database,
//! its schema or its master key file. Every other command is refused where one of them is missing,
//! because it would otherwise work on a new and wrong database.

use std::path::{Path, PathBuf};

use runtime::clock::Random;
use runtime::keyfile::{self, KeyFileError};
use runtime::sealing::{Keyring, MasterKey};
use secrecy::ExposeSecret;
use settings::Config;
use store::{OpenOptions, SchemaSteps, Store, StoreAccess, StoreError};

use super::error::StartError;

/// What a command does about a missing database, schema or master key file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingParts {
    /// It creates them.
    Create,
    /// It is refused.
    Refuse,
}

/// Opens the database, and leaves its schema as it is.
async fn opened(
    config: &Config,
    access: StoreAccess,
    missing: MissingParts,
) -> Result<Store, StoreError> {
    let mut options = OpenOptions::new(config.database.url.expose_secret());
    options.access = access;
    options.create_if_missing = missing == MissingParts::Create;
    options.connections_max = config.database.connections_max;
    options.reserve_bytes = config.database.reserve_bytes;
    options.allow_unsafe = config.database.allow_unsafe_durability;
    Store::open(&options).await
}

/// Opens a database that exists and has the schema of this version.
pub(super) async fn existing(config: &Config, access: StoreAccess) -> Result<Store, StartError> {
    let opened = opened(config, access, MissingParts::Refuse).await;
    let store = opened.map_err(|error| match error {
        StoreError::NoDatabase { path } => StartError::NoDatabase { path },
        other => other.into(),
    })?;
    match check_existing(config, &store).await {
        Ok(()) => Ok(store),
        Err(error) => {
            store.close().await;
            Err(error)
        }
    }
}

async fn check_existing(config: &Config, store: &Store) -> Result<(), StartError> {
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
    let store = opened(config, StoreAccess::ReadWrite, MissingParts::Create).await?;
    store.migrate().await?;
    if let Some(path) = key_file(config).filter(|path| !path.exists())
        && !store::data_keys::are_sealed(&store).await?
    {
        keyfile::create(&path, &Random::System)?;
    }
    store.close().await;
    Ok(())
}

/// The store of a service, whose schema is up to date.
pub(super) async fn migrated(config: &Config, missing: MissingParts) -> Result<Store, StartError> {
    if missing == MissingParts::Refuse {
        return existing(config, StoreAccess::ReadWrite).await;
    }
    let store = opened(config, StoreAccess::ReadWrite, missing).await?;
    if config.database.migrate_at_start {
        store.migrate().await?;
    } else {
        check_schema(&store).await?;
    }
    Ok(store)
}

/// Refuses a database that needs migrations, if the server may not run them.
async fn check_schema(store: &Store) -> Result<(), StartError> {
    let SchemaSteps { applied, all } = store.schema_steps().await?;
    if applied < all { Err(StartError::Schema { applied, all }) } else { Ok(()) }
}

/// The file of the embedded database's master keys; `None` if they are configured.
pub(super) fn key_file(config: &Config) -> Option<PathBuf> {
    if !config.secrets.master_keys.is_empty() {
        return None;
    }
    let database = config.embedded_database()?;
    let folder = database.parent().map(Path::to_path_buf).unwrap_or_default();
    Some(folder.join(&config.secrets.key_file))
}

/// The master keys. The key file is created with the database; if the database has sealed data and
/// the file is missing, or the command creates nothing, that is an error.
pub(super) async fn keyring(
    config: &Config,
    store: &Store,
    random: &Random,
    missing: MissingParts,
) -> Result<Keyring, StartError> {
    if let Some(path) = key_file(config) {
        return match keyfile::read(&path)? {
            Some(keyring) => Ok(keyring),
            None if store::data_keys::are_sealed(store).await? => {
                Err(KeyFileError::Missing { path: path.display().to_string() }.into())
            }
            None if missing == MissingParts::Refuse => {
                Err(StartError::NoKeyFile { path: absolute(&path) })
            }
            None => Ok(keyfile::create(&path, random)?),
        };
    }
    let keys = config.secrets.master_keys.iter().map(|key| MasterKey::parse(key.expose_secret()));
    let keys: Result<Vec<_>, String> = keys.collect();
    keys.ok().and_then(Keyring::new).ok_or_else(|| StartError::Configuration(config.problems()))
}

/// The path with its folder.
pub(super) fn absolute(path: &Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    whole.display().to_string()
}
