//! `migrate`: creates the database if it is missing, and brings its schema up to date.

use std::process::ExitCode;

use crate::ConfigFile;
use crate::output::say_line;

/// Applies the migrations and reports the result.
pub(crate) async fn run(file: &ConfigFile) -> anyhow::Result<ExitCode> {
    let config = file.load()?;
    node::start::migrate(&config).await?;
    say_line!("the database is up to date")?;
    Ok(ExitCode::SUCCESS)
}
