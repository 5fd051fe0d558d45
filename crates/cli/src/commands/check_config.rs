//! `check-config`: the configuration in force, secrets hidden, and everything that is wrong with it.

use std::fmt::Write as _;
use std::process::ExitCode;

use crate::ConfigFile;

/// Prints the configuration; fails when the service would not start with it.
pub(crate) fn run(file: &ConfigFile) -> anyhow::Result<ExitCode> {
    let config = file.load()?;
    let problems = server::start::problems(&config);
    let mut text = format!("{config:#?}\n");
    if problems.is_empty() {
        text.push_str("no problems\n");
        crate::output::say(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(text, "{} problem(s):", problems.len())?;
    for problem in problems {
        writeln!(text, "  {problem}")?;
    }
    crate::output::say(&text)?;
    Ok(ExitCode::FAILURE)
}
