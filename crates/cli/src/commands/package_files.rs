//! `completions` and `man`: files for packages, written from the command line's own definition.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap_complete::Shell;

/// Which shell.
#[derive(clap::Args)]
pub(crate) struct CompletionOptions {
    /// The shell that reads the completions.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Where the manual pages go.
#[derive(clap::Args)]
pub(crate) struct ManualOptions {
    /// An existing folder, in which a page for each command is written.
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
}

/// Prints the completions of a shell.
pub(crate) fn completions(
    mut program: clap::Command,
    options: &CompletionOptions,
) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut program, "creator-gateway", &mut script);
    crate::output::say(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a manual page for the program and for each of its commands.
pub(crate) fn manual(program: clap::Command, options: &ManualOptions) -> anyhow::Result<ExitCode> {
    let folder = &options.output;
    clap_mangen::generate_to(program, folder)
        .with_context(|| format!("the pages cannot be written into {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
