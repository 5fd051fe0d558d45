//! `openapi`: the API contract, as JSON.

use std::process::ExitCode;

use settings::Config;

/// Prints the document.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let catalog = ::catalog::Catalog::built_in()?;
    let costs = Config::from_toml("")?.credits.costs();
    let document = node::openapi::document(&catalog, &costs);
    crate::output::say(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
    Ok(ExitCode::SUCCESS)
}
