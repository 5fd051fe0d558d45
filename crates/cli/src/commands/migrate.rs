//! `migrate`: brings the database's schema up to date.

use std::process::ExitCode;

use crate::ConfigFile;
use crate::output::say_line;

/// Applies the migrations and reports the result.
pub(crate) async fn run(file: &ConfigFile) -> anyhow::Result<ExitCode> {
    let config = file.load()?;
    let store = node::start::open_store(&config).await?;
    store.migrate().await?;
    store.close().await;
    say_line!("the database is up to date")?;
    Ok(ExitCode::SUCCESS)
}
