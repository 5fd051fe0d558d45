//! `catalog import` and `catalog update`: create and update catalogue files from OpenAPI documents.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use catalog::catalog_update::{self, CatalogUpdate, RemovedRoutes};
use catalog::openapi_import;
use serde_json::Value;

use crate::output::{say, say_line};

/// The file to update, and the document.
#[derive(clap::Args)]
pub(crate) struct UpdateOptions {
    /// The catalogue file.
    file: PathBuf,
    /// The newer OpenAPI document (JSON or YAML).
    document: PathBuf,
    /// The path prefix that the gateway adds, as given to `import`.
    #[arg(long, default_value = "")]
    prefix: String,
    /// Writes the file. Without it, the command only shows differences, and fails if there are any.
    /// Comments are lost.
    #[arg(long)]
    write: bool,
    /// Keeps routes that the document does not have.
    #[arg(long)]
    keep_removed: bool,
}

/// The text of a catalogue file for a document.
pub(super) fn run(file: &Path, prefix: &str) -> anyhow::Result<String> {
    let document = read_document(file)?;
    openapi_import::import(&document, prefix).with_context(|| file.display().to_string())
}

/// Shows the differences, and writes the file if requested. Fails if there are differences that
/// were not written.
pub(super) fn update(options: &UpdateOptions) -> anyhow::Result<ExitCode> {
    let UpdateOptions { file, document, prefix, .. } = options;
    let existing = std::fs::read_to_string(file)
        .with_context(|| format!("{} cannot be read", file.display()))?;
    let removed = if options.keep_removed { RemovedRoutes::Keep } else { RemovedRoutes::Drop };
    let document = read_document(document)?;
    let update = catalog_update::update(&existing, &document, prefix, removed)
        .with_context(|| file.display().to_string())?;
    say(&differences(&update)?)?;
    if options.write {
        replace(file, &update.text)
            .with_context(|| format!("{} cannot be written", file.display()))?;
        say_line!("updated {}", file.display())?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if update.has_differences() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads a document, but not beyond the maximum size.
fn read_document(file: &Path) -> anyhow::Result<Value> {
    let unreadable = || format!("{} cannot be read", file.display());
    let mut bytes = Vec::new();
    let most = u64::try_from(openapi_import::DOCUMENT_BYTES_MAX)?.saturating_add(1);
    File::open(file)
        .and_then(|open| open.take(most).read_to_end(&mut bytes))
        .with_context(unreadable)?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // A document cut inside a character is refused because of its size.
        Err(error) if error.as_bytes().len() > openapi_import::DOCUMENT_BYTES_MAX => {
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        }
        Err(_) => anyhow::bail!("{} is not text in UTF-8", file.display()),
    };
    openapi_import::read(&text).with_context(|| file.display().to_string())
}

/// One line for each route, and one for each change of a route.
fn differences(update: &CatalogUpdate) -> Result<String, std::fmt::Error> {
    let CatalogUpdate { added, removed, kept, changed, .. } = update;
    let mut text = String::new();
    for (mark, names) in [("+", added), ("-", removed)] {
        for name in names {
            writeln!(text, "{mark} {name}")?;
        }
    }
    for change in changed {
        writeln!(text, "~ {}", change.name)?;
        for detail in &change.details {
            writeln!(text, "    {detail}")?;
        }
    }
    for name in kept {
        writeln!(text, "= {name} (not in the document, kept)")?;
    }
    let (added, removed, changed) = (added.len(), removed.len(), changed.len());
    writeln!(text, "{added} added, {removed} removed, {changed} changed")?;
    Ok(text)
}

/// Replaces a file atomically.
fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    let file = file.canonicalize()?;
    let folder = file.parent().context("it is in no folder")?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(std::fs::metadata(&file)?.permissions())?;
    new.as_file().sync_all()?;
    new.persist(&file)?;
    Ok(())
}
