//! `openapi`: the contract, as JSON.

use std::process::ExitCode;

use server::config::Config;

/// Prints the document.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let catalog = ::catalog::Catalog::built_in()?;
    let costs = Config::from_toml("")?.credits.costs();
    println!("{}", serde_json::to_string_pretty(&server::openapi::document(&catalog, &costs))?);
    Ok(ExitCode::SUCCESS)
}
